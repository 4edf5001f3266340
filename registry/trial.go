// SPDX-License-Identifier: Apache-2.0

package registry

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
	endpoint, credential string

	begun    time.Time // the first attempt; zero before it
	underway bool
	attempts int // that have ended
	retryAt  time.Time

	accepted bool
	id       string            // of the remote that has accepted it
	found    *preflight.Result // with the permissions of the credential; nil if they are not known
	chosen   bool              // the modules were selected for these permissions

	refusals int             // in a row
	why      state.Condition // why the last attempt failed
}

// trialFact is the outcome of one attempt.
type trialFact struct {
	probeFact
	of      *preflight.Questions // that lacking answers; nil if the permissions are not known
	lacking map[string][]string  // by module
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
func (m *machine) applyTrial(f trialFact, now time.Time) {
	t, l := &m.trial, m.lineTo(f.endpoint)
	if l == nil || !t.underway || t.endpoint != f.endpoint || t.credential != f.credential {
		return
	}
	t.underway = false
	t.attempts++
	if f.ok {
		blocked := m.blocked(&line{id: f.id, isHub: f.isHub})
		if blocked == nil {
			t.accepted, t.id = true, f.id
			if f.of != nil && l.found != nil && l.found.Questions == f.of {
				t.found = &preflight.Result{Questions: f.of, Served: l.found.Served, Missing: f.lacking}
			}
			return
		}
		f.refused, f.failed = true, *blocked
	}
	t.why = f.failed
	t.refusals++
	if !f.refused {
		t.refusals = 0
	}
	delay := min(retryBase<<min(t.attempts-1, 16), retryMax)
	t.retryAt = now.Add(time.Duration(float64(delay) * (0.8 + 0.4*m.jitter())))
}

// isUndecided reports whether a line waits for the first result of the trial of its next credential.
func (m *machine) isUndecided(l *line, now time.Time) bool {
	if l.endpoint != m.want.endpoint || l.credential == m.want.credential {
		return false
	}
	t := &m.trial
	return t.credential != m.want.credential || t.attempts == 0 && (t.begun.IsZero() || now.Sub(t.begun) < undecidedFor)
}

// candidate returns the credential that may take the place of the one that the line uses, or "".
func (m *machine) candidate(l *line, now time.Time) string {
	switch {
	case l == nil || m.want.paused || m.over(now):
		return ""
	case l.credential != m.want.credential:
		return m.want.credential
	case l.good != "" && l.good != l.credential && m.refuses(l):
		return l.good
	}
	return ""
}

// refuses reports whether the remote at the end of a line does not work because of the credential.
func (m *machine) refuses(l *line) bool {
	return l.contact == contactLost && l.refused || l.contact == contactOK && m.blocked(l) != nil && l.holder == ""
}

// moveCredential begins and ends trials, and puts a credential in use.
func (m *machine) moveCredential(do *actions, now time.Time) {
	l := m.lineTo(m.want.endpoint)
	candidate := m.candidate(l, now)
	if candidate == "" {
		m.endTrial(do)
		return
	}
	t := &m.trial
	if t.credential != candidate || t.endpoint != l.endpoint {
		m.endTrial(do)
		*t = trial{endpoint: l.endpoint, credential: candidate}
	}
	switch {
	case m.mayReplace(l, now):
		m.put(do, l, now)
	case m.replaces(l):
		if m.isFree(l) {
			*l = line{endpoint: l.endpoint, credential: l.credential}
			m.put(do, l, now)
		}
	case t.accepted:
		if l != &m.line || !t.narrows(l) || !m.app.lent() || t.chosen && m.fits(&m.app) {
			m.put(do, l, now)
		}
	case !t.underway && !now.Before(t.retryAt):
		t.underway = true
		if t.begun.IsZero() {
			t.begun = now
		}
		*do = append(*do, action{kind: actTry, endpoint: l.endpoint, credential: candidate})
	}
}

func (m *machine) endTrial(do *actions) {
	if m.trial.underway {
		do.add(actEndTrial)
	}
	m.trial = trial{}
}

// mayReplace reports whether the wanted credential is put in use untried, because nothing works on the line. One that
// was just refused has to wait, so that the last good one gets its chance.
func (m *machine) mayReplace(l *line, now time.Time) bool {
	t := &m.trial
	if m.usable(l) || t.credential != m.want.credential || l.contact == contactLost && l.oks > 0 {
		return false
	}
	return l.contact == contactLost && l.refused || t.refusals == 0 || !now.Before(t.retryAt)
}

// replaces reports whether the app on a line has to end before the wanted credential is put in use: that leads to
// another cluster, which the operator has accepted, or the operator demands the credential though the remote has not
// accepted it.
func (m *machine) replaces(l *line) bool {
	t := &m.trial
	if l == nil || t.endpoint != l.endpoint || t.credential != m.want.credential {
		return false
	}
	if t.accepted {
		return t.id != "" && l.id != "" && t.id != l.id
	}
	return m.want.acceptCredential && t.attempts > 0
}

// narrows reports whether the credential on trial lacks permissions that the one in use has. Then the modules that
// need them end first.
func (t *trial) narrows(l *line) bool {
	if !t.accepted || t.found == nil || l.found == nil || t.found.Questions != l.found.Questions {
		return false
	}
	for module, missing := range t.found.Missing {
		if len(missing) > len(l.found.Missing[module]) {
			return true
		}
	}
	return false
}

// put puts the credential on trial in use.
func (m *machine) put(do *actions, l *line, now time.Time) {
	t := m.trial
	refusal := l.lost
	if blocked := m.blocked(l); l.contact == contactOK && blocked != nil {
		refusal = *blocked
	}
	m.endTrial(do)
	kind := actSwap
	if l == &m.spare {
		kind = actSwapSpare
	}
	*do = append(*do, action{kind: kind, endpoint: l.endpoint, credential: t.credential})
	l.credential, l.refused = t.credential, false
	if t.accepted && t.found != nil && l.found != nil && t.found.Questions == l.found.Questions {
		l.found = t.found
	}
	if t.credential == m.want.credential {
		return
	}
	l.id, l.isHub = t.id, false // what the credential before has led to is not what this one leads to
	m.trial = trial{
		endpoint: l.endpoint, credential: m.want.credential, begun: now, attempts: 1, refusals: reportedRefusals,
		why: refusal, retryAt: now.Add(retryBase),
	}
}

// applySwapFailed takes note that a credential could not be put in use, and that the line has the one before.
func (m *machine) applySwapFailed(endpoint, before string, why state.Condition, now time.Time) {
	l := m.lineTo(endpoint)
	if l == nil || l.credential == before {
		return
	}
	m.trial = trial{
		endpoint: endpoint, credential: l.credential, begun: now, attempts: 1, refusals: reportedRefusals,
		why: why, retryAt: now.Add(retryMax),
	}
	l.credential = before
}

// newCredential says why the wanted credential is not in use, if that is worth to be said.
func (m *machine) newCredential() state.Condition {
	t := &m.trial
	switch {
	case t.credential == "" || t.credential != m.want.credential || t.underway && t.attempts == 0:
		return state.Condition{}
	case t.refusals >= reportedRefusals:
		return state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonNotInUse, Message: t.why.Message}
	case t.refusals == 0 && t.attempts >= reportedAttempts && !t.accepted:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonNotInUse, Message: t.why.Message}
	}
	return state.Condition{}
}
