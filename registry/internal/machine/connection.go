// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Connection is the state of a connection to one endpoint. The zero Connection is none.
type Connection struct {
	Endpoint, Credential string
	Good                 string // the last credential that the remote has accepted; "" for none

	Contact    contact
	lost       state.Condition // why contact was lost
	throttled  state.Condition // what the remote says, with contact, that asks the hub to wait; or zero
	refused    bool            // the last probe failed because of the credential
	oks, Fails int             // consecutive probes
	backAt     time.Time
	flaps      int // losses of contact, each soon after the end of the outage before

	id      string
	holder  state.ClusterName // the other remote with this id, or ""
	isHub   bool
	Version string
	Found   *PreflightResult // of the last preflight, or nil
}

// Preflighted reports whether a preflight with these questions has finished, with any result.
func (c *Connection) Preflighted(q *Questions) bool {
	return q == nil || c.Found != nil && c.Found.Questions == q
}

type contact int

const (
	contactNone contact = iota // not probed yet
	// ContactOK means that the remote has passed as many probes as it needs.
	ContactOK
	contactLost
)

// Flapping: each time contact is lost soon after an outage, the next outage takes twice as many successful probes to
// end, up to thirty. So an unstable remote costs a start of its app every other minute, not every few seconds.
const (
	flapWindow = time.Minute
	maxFlaps   = 5
	maxProof   = 30
)

// Probed is the outcome of one probe of the endpoint that the probe was made for.
type Probed struct {
	Endpoint, Credential string // fingerprints, of the probe
	OK                   bool
	Failed               state.Condition // when not ok
	Fatal                bool            // the credentials were rejected: no second probe is needed
	Refused              bool            // it failed because of the credential
	Throttled            bool            // it failed because the remote asks the hub to wait
	ID, Version          string
	Holder               state.ClusterName // the other remote that has this id already, or ""
	IsHub                bool
}

func (c *Connection) applyProbe(p Probed, failureThreshold, successThreshold int, now time.Time) {
	c.refused = p.Refused
	if p.Throttled && c.Contact == ContactOK { // A sign of life: an app that starts again would send all its lists again.
		c.throttled, c.Fails = p.Failed, 0
		return
	}
	if !p.OK {
		c.oks, c.Fails = 0, c.Fails+1
		if c.Contact != ContactOK || p.Fatal || c.Fails >= failureThreshold {
			c.lose(p.Failed, now)
		}
		return
	}
	c.oks, c.Fails, c.throttled = c.oks+1, 0, state.Condition{}
	c.id, c.holder, c.isHub, c.Version = p.ID, p.Holder, p.IsHub, p.Version
	switch {
	case c.Contact == contactNone:
		c.Contact = ContactOK
	case c.Contact == contactLost && c.oks >= c.proof(successThreshold):
		c.Contact, c.backAt = ContactOK, now
	}
}

// lose also records whether this followed soon after an outage.
func (c *Connection) lose(why state.Condition, now time.Time) {
	if c.Contact == ContactOK {
		if c.backAt.IsZero() || now.Sub(c.backAt) > flapWindow {
			c.flaps = 0
		} else {
			c.flaps = min(c.flaps+1, maxFlaps)
		}
	}
	c.Contact, c.lost = contactLost, why
}

// proof is how many consecutive successes end an outage.
func (c *Connection) proof(successThreshold int) int {
	return max(successThreshold, min(1<<c.flaps, maxProof))
}
