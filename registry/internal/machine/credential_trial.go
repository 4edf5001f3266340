// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Which credential a connection uses. A working one is replaced only if the remote has accepted the new one on a
// separate connection, or the operator demands it. A connection that does not work uses the newest at once, and the
// last good one after the remote has refused the newest.

// trial tries a credential while another is in use. The zero trial is none.
type trial struct {
	Endpoint, credential string

	begun    time.Time // the first attempt; zero before it
	underway bool
	Attempts int // finished attempts
	retryAt  time.Time

	Accepted bool
	id       string           // of the remote that accepted the credential
	Found    *PreflightResult // with the permissions of the credential; nil if they are unknown
	Chosen   bool             // the modules were selected for these permissions

	refusals int             // consecutive
	Why      state.Condition // why the last attempt failed
}

// Tried is the outcome of one attempt.
type Tried struct {
	Probed
	Questions *Questions          // the questions behind Missing; nil if the permissions are unknown
	Missing   map[string][]string // by module
}

// undecidedFor is how long a refused credential stays in use during the first trial of its successor.
const undecidedFor = 10 * time.Second

// reportedRefusals: an API server may accept a new credential a moment later than its peers. reportedAttempts is the
// same for attempts without a result.
const (
	reportedRefusals = 2
	reportedAttempts = 3
)

func (m *Machine) applyTrial(f Tried, now time.Time) {
	t, c := &m.Trial, m.ConnectionTo(f.Endpoint)
	if c == nil || !t.underway || t.Endpoint != f.Endpoint || t.credential != f.Credential {
		return
	}
	t.underway = false
	t.Attempts++
	if f.OK {
		blocked := m.blocked(&Connection{id: f.ID, isHub: f.IsHub})
		if blocked == nil {
			t.Accepted, t.id = true, f.ID
			if f.Questions != nil && c.Found != nil && c.Found.Questions == f.Questions {
				t.Found = &PreflightResult{Questions: f.Questions, Served: c.Found.Served, Missing: f.Missing}
			}
			return
		}
		f.Refused, f.Failed = true, *blocked
	}
	t.Why = f.Failed
	t.refusals++
	if !f.Refused {
		t.refusals = 0
	}
	t.retryAt = now.Add(Backoff(t.Attempts-1, m.Jitter()))
}

// isUndecided: the first result of a trial is not there.
func (m *Machine) isUndecided(c *Connection, now time.Time) bool {
	if c.Endpoint != m.want.Endpoint || c.Credential == m.want.Credential {
		return false
	}
	t := &m.Trial
	return t.credential != m.want.Credential || t.Attempts == 0 && (t.begun.IsZero() || now.Sub(t.begun) < undecidedFor)
}

// candidate may replace the connection's credential; may be "".
func (m *Machine) candidate(c *Connection, now time.Time) string {
	switch {
	case c == nil || m.want.Paused || m.over(now):
		return ""
	case c.Credential != m.want.Credential:
		return m.want.Credential
	case c.Good != "" && c.Good != c.Credential && m.refuses(c):
		return c.Good
	}
	return ""
}

func (m *Machine) refuses(c *Connection) bool {
	return c.Contact == contactLost && c.refused || c.Contact == ContactOK && m.blocked(c) != nil && m.holder(c) == ""
}

func (m *Machine) moveCredential(do *actions, now time.Time) {
	c := m.ConnectionTo(m.want.Endpoint)
	candidate := m.candidate(c, now)
	if candidate == "" {
		m.endTrial(do)
		return
	}
	t := &m.Trial
	if t.credential != candidate || t.Endpoint != c.Endpoint {
		m.endTrial(do)
		*t = trial{Endpoint: c.Endpoint, credential: candidate}
	}
	switch {
	case m.mayReplace(c, now):
		m.put(do, c, now)
	case m.replaces(c):
		if m.isFree(c) {
			*c = Connection{Endpoint: c.Endpoint, Credential: c.Credential}
			m.put(do, c, now)
		}
	case t.Accepted:
		if c != &m.Connection || !t.Narrows(c) || !m.App.Lent() || t.Chosen && m.fits(&m.App) {
			m.put(do, c, now)
		}
	case !t.underway && !now.Before(t.retryAt):
		t.underway = true
		if t.begun.IsZero() {
			t.begun = now
		}
		*do = append(*do, Action{Kind: Try, Endpoint: c.Endpoint, Credential: candidate})
	}
}

func (m *Machine) endTrial(do *actions) {
	if m.Trial.underway {
		do.add(EndTrial)
	}
	m.Trial = trial{}
}

// mayReplace: nothing works on the connection. A credential that was just refused must wait, so that the last good one
// is tried.
func (m *Machine) mayReplace(c *Connection, now time.Time) bool {
	t := &m.Trial
	if m.Usable(c) || t.credential != m.want.Credential || c.Contact == contactLost && c.oks > 0 {
		return false
	}
	return c.Contact == contactLost && c.refused || t.refusals == 0 || !now.Before(t.retryAt)
}

// replaces reports whether the app must end before the desired credential is used: that leads to another cluster, which
// the operator has accepted, or the operator demands it although the remote has not accepted it.
func (m *Machine) replaces(c *Connection) bool {
	t := &m.Trial
	if c == nil || t.Endpoint != c.Endpoint || t.credential != m.want.Credential {
		return false
	}
	if t.Accepted {
		return t.id != "" && c.id != "" && t.id != c.id
	}
	return m.want.AcceptCredential && t.Attempts > 0
}

// Narrows reports whether the credential on trial lacks permissions that the one in use has. The modules that need them
// end before the swap.
func (t *trial) Narrows(c *Connection) bool {
	if !t.Accepted || t.Found == nil || c.Found == nil || t.Found.Questions != c.Found.Questions {
		return false
	}
	for module, missing := range t.Found.Missing {
		if len(missing) > len(c.Found.Missing[module]) {
			return true
		}
	}
	return false
}

func (m *Machine) put(do *actions, c *Connection, now time.Time) {
	t := m.Trial
	refusal := c.lost
	if blocked := m.blocked(c); c.Contact == ContactOK && blocked != nil {
		refusal = *blocked
	}
	m.endTrial(do)
	kind := Swap
	if c == &m.Spare {
		kind = SwapSpare
	}
	*do = append(*do, Action{Kind: kind, Endpoint: c.Endpoint, Credential: t.credential})
	c.Credential, c.refused = t.credential, false
	if t.Accepted && t.Found != nil && c.Found != nil && t.Found.Questions == c.Found.Questions {
		c.Found = t.Found
	}
	if t.credential == m.want.Credential {
		return
	}
	c.id, c.isHub = t.id, false // The refused credential may have led to another cluster.
	m.Trial = trial{
		Endpoint: c.Endpoint, credential: m.want.Credential, begun: now, Attempts: 1, refusals: reportedRefusals,
		Why: refusal, retryAt: now.Add(RetryBase),
	}
}

func (m *Machine) applySwapFailed(endpoint, before string, why state.Condition, now time.Time) {
	c := m.ConnectionTo(endpoint)
	if c == nil || c.Credential == before {
		return
	}
	m.Trial = trial{
		Endpoint: endpoint, credential: c.Credential, begun: now, Attempts: 1, refusals: reportedRefusals,
		Why: why, retryAt: now.Add(retryMax),
	}
	c.Credential = before
}

func (m *Machine) newCredential() state.Condition {
	t := &m.Trial
	switch {
	case t.credential == "" || t.credential != m.want.Credential || t.underway && t.Attempts == 0:
		return state.Condition{}
	case t.refusals >= reportedRefusals:
		return state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonNotInUse, Message: t.Why.Message, Problem: t.Why.Problem}
	case t.refusals == 0 && t.Attempts >= reportedAttempts && !t.Accepted:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonNotInUse, Message: t.Why.Message, Problem: t.Why.Problem}
	}
	return state.Condition{}
}
