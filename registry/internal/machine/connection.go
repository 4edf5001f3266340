// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Connection is what the machine knows of the connection to one endpoint. The zero line is none.
type Connection struct {
	Endpoint, Credential string
	Good                 string // the last credential that the remote has accepted; "" for none

	Contact    contact
	lost       state.Condition // why contact is lost
	refused    bool            // the last probe failed because of the credential
	oks, Fails int             // probes in a row
	backAt     time.Time
	flaps      int // losses of contact, each soon after the return from the one before

	id      string
	holder  state.ClusterName // who has this id, "" for nobody else
	isHub   bool
	Version string
	Found   *preflight.Result // of the last survey; nil for none
}

// Surveyed reports whether questions have been asked; whatever the answers were.
func (l *Connection) Surveyed(q *preflight.Questions) bool {
	return q == nil || l.Found != nil && l.Found.Questions == q
}

type contact int

const (
	contactNone contact = iota // not probed yet
	ContactOK
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

// Probed is the outcome of one probe of the endpoint that the probe was made for.
type Probed struct {
	Endpoint, Credential string // what it was made with
	OK                   bool
	Failed               state.Condition // when not ok
	Fatal                bool            // credentials rejected: no point in asking twice
	Refused              bool            // it failed because of the credential
	ID, Version          string
	Holder               state.ClusterName // who holds this id already, "" for nobody else
	IsHub                bool
}

// applyProbe takes note of a probe of this line.
func (l *Connection) applyProbe(p Probed, failureThreshold, successThreshold int, now time.Time) {
	l.refused = p.Refused
	if !p.OK {
		l.oks, l.Fails = 0, l.Fails+1
		if l.Contact != ContactOK || p.Fatal || l.Fails >= failureThreshold {
			l.lose(p.Failed, now)
		}
		return
	}
	l.oks, l.Fails = l.oks+1, 0
	l.id, l.holder, l.isHub, l.Version = p.ID, p.Holder, p.IsHub, p.Version
	switch {
	case l.Contact == contactNone:
		l.Contact = ContactOK
	case l.Contact == contactLost && l.oks >= l.proof(successThreshold):
		l.Contact, l.backAt = ContactOK, now
	}
}

func (l *Connection) lose(why state.Condition, now time.Time) {
	if l.Contact == ContactOK {
		if l.backAt.IsZero() || now.Sub(l.backAt) > flapWindow {
			l.flaps = 0
		} else {
			l.flaps = min(l.flaps+1, maxFlaps)
		}
	}
	l.Contact, l.lost = contactLost, why
}

// proof returns how many good probes in a row end an outage.
func (l *Connection) proof(successThreshold int) int {
	return max(successThreshold, min(1<<l.flaps, maxProof))
}

// Usable reports whether an app may run on this line.
func (m *Machine) Usable(l *Connection) bool {
	return l.Endpoint != "" && l.Contact == ContactOK && m.blocked(l) == nil
}

// blocked returns why the identity of the remote at the end of the line forbids an app, or nil.
func (m *Machine) blocked(l *Connection) *state.Condition {
	refuse := func(reason, format string, args ...any) *state.Condition {
		return &state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.id == "":
		return nil
	case l.isHub:
		return refuse(state.ReasonIsHub, "the credentials lead to the hub's own cluster; if that is meant, "+
			"set the annotation clusterfx.dev/allow-hub=true, or start the hub with --allow-hub-as-remote")
	case !m.Expects(l.id):
		return refuse(state.ReasonIdentityChanged, "the credentials lead to cluster %s, but this name "+
			"belongs to %s; mend the Secret, or accept the new cluster with the annotation "+
			"clusterfx.dev/accept-id=%s", l.id, m.KnownID(), l.id)
	case l.holder != "":
		return refuse(state.ReasonDuplicate, "cluster %s is registered as %q already; delete one of the two", l.id, l.holder)
	}
	return nil
}

// Expects reports whether a remote with this id is the one that is meant. What is not expected has
// no claim to the id.
func (m *Machine) Expects(id string) bool {
	known := m.KnownID()
	return known == "" || known == id || m.want.Identity.Accepted == id
}

// KnownID returns which cluster the remote was before, or "".
func (m *Machine) KnownID() string {
	if m.want.Identity.Known != "" {
		return m.want.Identity.Known
	}
	return m.knownID
}
