// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// What is in this file decides which credential a line uses. A credential that works is replaced by another one
// only if the remote has accepted that one on a connection of its own, or if the operator demands it. On a line that
// does not work the newest credential is used at once, and the last good one after the remote has refused the newest.

// trial is what the machine knows of a credential that is tried beside the one in use. The zero trial is none.
type trial struct {
	Endpoint, credential string

	begun    time.Time // the first attempt; zero before it
	underway bool
	Attempts int // that have ended
	retryAt  time.Time

	Accepted bool
	id       string            // of the remote that has accepted it
	Found    *preflight.Result // with the permissions of the credential; nil if they are not known
	Chosen   bool              // the modules were selected for these permissions

	refusals int             // in a row
	Why      state.Condition // why the last attempt failed
}

// Tried is the outcome of one attempt.
type Tried struct {
	Probed
	Questions      *preflight.Questions // that lacking answers; nil if the permissions are not known
	Missing map[string][]string  // by module
}

// undecidedFor is how long a credential that the remote refuses stays in use while its successor is tried for the
// first time.
const undecidedFor = 10 * time.Second

// reportedRefusals is how many attempts in a row are refused before that is reported: an API server may learn of a
// new credential a moment later than others. reportedAttempts is the same for attempts without a result.
const (
	reportedRefusals = 2
	reportedAttempts = 3
)

// applyTrial takes note of an attempt.
func (m *Machine) applyTrial(f Tried, now time.Time) {
	t, l := &m.Trial, m.ConnectionTo(f.Endpoint)
	if l == nil || !t.underway || t.Endpoint != f.Endpoint || t.credential != f.Credential {
		return
	}
	t.underway = false
	t.Attempts++
	if f.OK {
		blocked := m.blocked(&Connection{id: f.ID, isHub: f.IsHub})
		if blocked == nil {
			t.Accepted, t.id = true, f.ID
			if f.Questions != nil && l.Found != nil && l.Found.Questions == f.Questions {
				t.Found = &preflight.Result{Questions: f.Questions, Served: l.Found.Served, Missing: f.Missing}
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
	delay := min(RetryBase<<min(t.Attempts-1, 16), RetryMax)
	t.retryAt = now.Add(time.Duration(float64(delay) * (0.8 + 0.4*m.Jitter())))
}

// isUndecided reports whether a line waits for the first result of the trial of its next credential.
func (m *Machine) isUndecided(l *Connection, now time.Time) bool {
	if l.Endpoint != m.want.Endpoint || l.Credential == m.want.Credential {
		return false
	}
	t := &m.Trial
	return t.credential != m.want.Credential || t.Attempts == 0 && (t.begun.IsZero() || now.Sub(t.begun) < undecidedFor)
}

// candidate returns the credential that may take the place of the one that the line uses, or "".
func (m *Machine) candidate(l *Connection, now time.Time) string {
	switch {
	case l == nil || m.want.Paused || m.over(now):
		return ""
	case l.Credential != m.want.Credential:
		return m.want.Credential
	case l.Good != "" && l.Good != l.Credential && m.refuses(l):
		return l.Good
	}
	return ""
}

// refuses reports whether the remote at the end of a line does not work because of the credential.
func (m *Machine) refuses(l *Connection) bool {
	return l.Contact == contactLost && l.refused || l.Contact == ContactOK && m.blocked(l) != nil && l.holder == ""
}

// moveCredential begins and ends trials, and puts a credential in use.
func (m *Machine) moveCredential(do *actions, now time.Time) {
	l := m.ConnectionTo(m.want.Endpoint)
	candidate := m.candidate(l, now)
	if candidate == "" {
		m.endTrial(do)
		return
	}
	t := &m.Trial
	if t.credential != candidate || t.Endpoint != l.Endpoint {
		m.endTrial(do)
		*t = trial{Endpoint: l.Endpoint, credential: candidate}
	}
	switch {
	case m.mayReplace(l, now):
		m.put(do, l, now)
	case m.replaces(l):
		if m.isFree(l) {
			*l = Connection{Endpoint: l.Endpoint, Credential: l.Credential}
			m.put(do, l, now)
		}
	case t.Accepted:
		if l != &m.Connection || !t.Narrows(l) || !m.App.Lent() || t.Chosen && m.fits(&m.App) {
			m.put(do, l, now)
		}
	case !t.underway && !now.Before(t.retryAt):
		t.underway = true
		if t.begun.IsZero() {
			t.begun = now
		}
		*do = append(*do, Action{Kind: Try, Endpoint: l.Endpoint, Credential: candidate})
	}
}

func (m *Machine) endTrial(do *actions) {
	if m.Trial.underway {
		do.add(EndTrial)
	}
	m.Trial = trial{}
}

// mayReplace reports whether the wanted credential is put in use untried, because nothing works on the line. One that
// was just refused has to wait, so that the last good one gets its chance.
func (m *Machine) mayReplace(l *Connection, now time.Time) bool {
	t := &m.Trial
	if m.Usable(l) || t.credential != m.want.Credential || l.Contact == contactLost && l.oks > 0 {
		return false
	}
	return l.Contact == contactLost && l.refused || t.refusals == 0 || !now.Before(t.retryAt)
}

// replaces reports whether the app on a line has to end before the wanted credential is put in use: that leads to
// another cluster, which the operator has accepted, or the operator demands the credential though the remote has not
// accepted it.
func (m *Machine) replaces(l *Connection) bool {
	t := &m.Trial
	if l == nil || t.Endpoint != l.Endpoint || t.credential != m.want.Credential {
		return false
	}
	if t.Accepted {
		return t.id != "" && l.id != "" && t.id != l.id
	}
	return m.want.AcceptCredential && t.Attempts > 0
}

// Narrows reports whether the credential on trial lacks permissions that the one in use has. Then the modules that
// need them end first.
func (t *trial) Narrows(l *Connection) bool {
	if !t.Accepted || t.Found == nil || l.Found == nil || t.Found.Questions != l.Found.Questions {
		return false
	}
	for module, missing := range t.Found.Missing {
		if len(missing) > len(l.Found.Missing[module]) {
			return true
		}
	}
	return false
}

// put puts the credential on trial in use.
func (m *Machine) put(do *actions, l *Connection, now time.Time) {
	t := m.Trial
	refusal := l.lost
	if blocked := m.blocked(l); l.Contact == ContactOK && blocked != nil {
		refusal = *blocked
	}
	m.endTrial(do)
	kind := Swap
	if l == &m.Spare {
		kind = SwapSpare
	}
	*do = append(*do, Action{Kind: kind, Endpoint: l.Endpoint, Credential: t.credential})
	l.Credential, l.refused = t.credential, false
	if t.Accepted && t.Found != nil && l.Found != nil && t.Found.Questions == l.Found.Questions {
		l.Found = t.Found
	}
	if t.credential == m.want.Credential {
		return
	}
	l.id, l.isHub = t.id, false // what the credential before has led to is not what this one leads to
	m.Trial = trial{
		Endpoint: l.Endpoint, credential: m.want.Credential, begun: now, Attempts: 1, refusals: reportedRefusals,
		Why: refusal, retryAt: now.Add(RetryBase),
	}
}

// applySwapFailed takes note that a credential could not be put in use, and that the line has the one before.
func (m *Machine) applySwapFailed(endpoint, before string, why state.Condition, now time.Time) {
	l := m.ConnectionTo(endpoint)
	if l == nil || l.Credential == before {
		return
	}
	m.Trial = trial{
		Endpoint: endpoint, credential: l.Credential, begun: now, Attempts: 1, refusals: reportedRefusals,
		Why: why, retryAt: now.Add(RetryMax),
	}
	l.Credential = before
}

// newCredential says why the wanted credential is not in use, if that is worth to be said.
func (m *Machine) newCredential() state.Condition {
	t := &m.Trial
	switch {
	case t.credential == "" || t.credential != m.want.Credential || t.underway && t.Attempts == 0:
		return state.Condition{}
	case t.refusals >= reportedRefusals:
		return state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonNotInUse, Message: t.Why.Message}
	case t.refusals == 0 && t.Attempts >= reportedAttempts && !t.Accepted:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonNotInUse, Message: t.Why.Message}
	}
	return state.Condition{}
}
