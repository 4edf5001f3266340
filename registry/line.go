// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// line is what the machine knows of the connection to one endpoint. The zero line is none.
type line struct {
	endpoint, credential string
	good                 string // the last credential that the remote has accepted; "" for none

	contact    contact
	lost       state.Condition // why contact is lost
	refused    bool            // the last probe failed because of the credential
	oks, fails int             // probes in a row
	backAt     time.Time
	flaps      int // losses of contact, each soon after the return from the one before

	id      string
	holder  state.ClusterName // who has this id, "" for nobody else
	isHub   bool
	version string
	found   *preflight.Result // of the last survey; nil for none
}

// surveyed reports whether questions have been asked; whatever the answers were.
func (l *line) surveyed(q *preflight.Questions) bool {
	return q == nil || l.found != nil && l.found.Questions == q
}

type contact int

const (
	contactNone contact = iota // not probed yet
	contactOK
	contactLost
)

// A remote that is lost again soon after it came back has to prove itself: it needs twice the
// number of good probes in a row each time, up to thirty of them, so that a remote that
// comes and goes costs a start of its app every other minute and not every few seconds.
const (
	flapWindow = time.Minute
	maxFlaps   = 5
	maxProof   = 30
)

// probeFact is the outcome of one probe of the endpoint that the probe was made for.
type probeFact struct {
	endpoint, credential string // what it was made with
	ok                   bool
	failed               state.Condition // when not ok
	fatal                bool            // credentials rejected: no point in asking twice
	refused              bool            // it failed because of the credential
	id, version          string
	holder               state.ClusterName // who holds this id already, "" for nobody else
	isHub                bool
}

// applyProbe takes note of a probe of this line.
func (l *line) applyProbe(p probeFact, failureThreshold, successThreshold int, now time.Time) {
	l.refused = p.refused
	if !p.ok {
		l.oks, l.fails = 0, l.fails+1
		if l.contact != contactOK || p.fatal || l.fails >= failureThreshold {
			l.lose(p.failed, now)
		}
		return
	}
	l.oks, l.fails = l.oks+1, 0
	l.id, l.holder, l.isHub, l.version = p.id, p.holder, p.isHub, p.version
	switch {
	case l.contact == contactNone:
		l.contact = contactOK
	case l.contact == contactLost && l.oks >= l.proof(successThreshold):
		l.contact, l.backAt = contactOK, now
	}
}

func (l *line) lose(why state.Condition, now time.Time) {
	if l.contact == contactOK {
		if l.backAt.IsZero() || now.Sub(l.backAt) > flapWindow {
			l.flaps = 0
		} else {
			l.flaps = min(l.flaps+1, maxFlaps)
		}
	}
	l.contact, l.lost = contactLost, why
}

// proof returns how many good probes in a row end an outage.
func (l *line) proof(successThreshold int) int {
	return max(successThreshold, min(1<<l.flaps, maxProof))
}

// usable reports whether an app may run on this line.
func (m *machine) usable(l *line) bool {
	return l.endpoint != "" && l.contact == contactOK && m.blocked(l) == nil
}

// blocked returns why the identity of the remote at the end of the line forbids an app, or nil.
func (m *machine) blocked(l *line) *state.Condition {
	refuse := func(reason, format string, args ...any) *state.Condition {
		return &state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.id == "":
		return nil
	case l.isHub:
		return refuse(state.ReasonIsHub, "the credentials lead to the hub's own cluster; if that is meant, "+
			"set the annotation clusterfx.dev/allow-hub=true, or start the hub with --allow-hub-as-remote")
	case !m.expects(l.id):
		return refuse(state.ReasonIdentityChanged, "the credentials lead to cluster %s, but this name "+
			"belongs to %s; mend the Secret, or accept the new cluster with the annotation "+
			"clusterfx.dev/accept-id=%s", l.id, m.known(), l.id)
	case l.holder != "":
		return refuse(state.ReasonDuplicate, "cluster %s is registered as %q already; delete one of the two", l.id, l.holder)
	}
	return nil
}

// expects reports whether a remote with this id is the one that is meant. What is not expected has
// no claim to the id.
func (m *machine) expects(id string) bool {
	known := m.known()
	return known == "" || known == id || m.want.identity.Accepted == id
}

// known returns which cluster the remote was before, or "".
func (m *machine) known() string {
	if m.want.identity.Known != "" {
		return m.want.identity.Known
	}
	return m.knownID
}
