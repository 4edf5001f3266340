// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// attempt is the outcome of a trial of C2 at E1.
func attempt(change func(*trialFact)) trialFact {
	f := trialFact{probeFact: good("E1")}
	f.credential = "C2"
	change(&f)
	return f
}

func refuses(reason string) func(*trialFact) {
	return func(f *trialFact) {
		f.ok, f.refused, f.failed = false, true, state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: "no"}
	}
}

func TestMachine_Trials(t *testing.T) {
	t.Parallel()
	type step struct {
		do    func(m *machine)
		after time.Duration
		want  []actionKind
		inUse string // the credential
		to    state.State
	}
	of := func(change func(*trialFact)) func(*machine) {
		return func(m *machine) { m.applyTrial(attempt(change), epochZero) }
	}
	accepts := of(func(*trialFact) {})
	refused := of(refuses(state.ReasonUnauthorized))
	fails := of(func(f *trialFact) {
		f.ok, f.failed = false, state.Condition{Status: metav1.ConditionFalse, Reason: "TimedOut", Message: "no answer"}
	})
	anotherCluster := of(func(f *trialFact) { f.id = "uid-2" })
	change := func(f func(*want)) func(*machine) {
		return func(m *machine) {
			w := m.want
			f(&w)
			m.applyWant(w)
		}
	}
	renew := change(func(w *want) { w.credential = "C2" })
	probe := func(p probeFact) func(*machine) {
		return func(m *machine) { m.applyProbe(p, epochZero) }
	}
	as := func(p probeFact, credential string) probeFact {
		p.credential = credential
		return p
	}
	gone := func(m *machine) { m.applyGone(m.app.epoch) }
	nothing := func(*machine) {}
	lost := func(m *machine) {
		for range 3 {
			m.applyProbe(bad("E1"), epochZero)
		}
	}
	for name, steps := range map[string][]step{
		"a new credential is tried and then swapped under the running app": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{accepts, 0, []actionKind{actSwap}, "C2", state.StateReady},
			{probe(as(good("E1"), "C2")), 0, nil, "C2", state.StateReady},
		},
		"a refused credential is not used, and tried again": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{refused, 0, nil, "C1", state.StateReady},
			{nothing, 2 * time.Second, []actionKind{actTry}, "C1", state.StateReady},
			{accepts, 2 * time.Second, []actionKind{actSwap}, "C2", state.StateReady},
		},
		"a credential that leads to another cluster is not used": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{anotherCluster, 0, nil, "C1", state.StateReady},
			{nothing, time.Minute, []actionKind{actTry}, "C1", state.StateReady},
		},
		"a credential that leads to another cluster, which the operator accepts, gets another app": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{anotherCluster, 0, nil, "C1", state.StateReady},
			{change(func(w *want) { w.identity.Accepted = "uid-2" }), 0, []actionKind{actTry}, "C1", state.StateReady},
			{anotherCluster, 0, []actionKind{actStop}, "C1", state.StateStarting},
			{gone, 0, []actionKind{actSwap}, "C2", state.StatePending},
			{probe(probeFact{endpoint: "E1", credential: "C2", ok: true, id: "uid-2"}), 0, []actionKind{actStart}, "C2", state.StateStarting},
		},
		"a credential that could not be tried is not used": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{fails, 0, nil, "C1", state.StateReady},
			{nothing, time.Minute, []actionKind{actTry}, "C1", state.StateReady},
		},
		"a credential that the operator accepts is used though the remote refuses it": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{refused, 0, nil, "C1", state.StateReady},
			{change(func(w *want) { w.acceptCredential = true }), 0, []actionKind{actStop}, "C1", state.StateStarting},
			{gone, 0, []actionKind{actSwap}, "C2", state.StatePending},
			{probe(rejected("C2")), time.Hour, nil, "C2", state.StateUnreachable},
		},
		"a later credential takes the place of the one on trial": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{change(func(w *want) { w.credential = "C3" }), 0, []actionKind{actEndTrial, actTry}, "C1", state.StateReady},
			{accepts, 0, nil, "C1", state.StateReady}, // of C2
			{change(func(w *want) { w.credential = "C1" }), 0, []actionKind{actEndTrial}, "C1", state.StateReady},
		},
		"the end of the old credential waits for the first result of the new one": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{probe(rejected("C1")), 0, nil, "C1", state.StateReady},
			{accepts, 0, []actionKind{actSwap}, "C2", state.StateReady},
		},
		"the end of the old credential when the new one is refused": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{refused, 0, nil, "C1", state.StateReady},
			{probe(rejected("C1")), 0, []actionKind{actStop, actSwap}, "C2", state.StateUnreachable},
			{gone, 0, nil, "C2", state.StateUnreachable},
			{probe(rejected("C2")), 0, []actionKind{actTry}, "C2", state.StateUnreachable}, // C1, again
			{probe(as(good("E1"), "C2")), 0, []actionKind{actEndTrial, actStart}, "C2", state.StateStarting},
		},
		"while the remote is away the newest credential is used first, then the last good one": {
			{lost, 0, []actionKind{actStop}, "C1", state.StateUnreachable},
			{gone, 0, nil, "C1", state.StateUnreachable},
			{renew, 0, []actionKind{actSwap}, "C2", state.StateUnreachable},
			{probe(rejected("C2")), 0, []actionKind{actTry}, "C2", state.StateUnreachable},
			{func(m *machine) {
				m.applyTrial(attempt(func(f *trialFact) { f.credential = "C1" }), epochZero)
			}, 0, []actionKind{actSwap}, "C1", state.StateUnreachable},
			{probe(good("E1")), 0, []actionKind{actStart}, "C1", state.StateStarting},
			{nothing, 2 * time.Second, []actionKind{actTry}, "C1", state.StateStarting},
			{accepts, 2 * time.Second, []actionKind{actSwap}, "C2", state.StateStarting},
		},
		"a probe with a credential that was replaced says nothing": {
			{renew, 0, []actionKind{actTry}, "C1", state.StateReady},
			{accepts, 0, []actionKind{actSwap}, "C2", state.StateReady},
			{probe(rejected("C1")), 0, nil, "C2", state.StateReady},
			{probe(rejected("C2")), 0, []actionKind{actStop, actTry}, "C2", state.StateUnreachable}, // C1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			ready(t, m, epochZero)
			for i, s := range steps {
				s.do(m)
				if diff := cmp.Diff(s.want, kinds(m.decide(epochZero.Add(s.after)))); diff != "" {
					t.Errorf("step %d: actions (-want +got):\n%s", i, diff)
				}
				if got := m.view(epochZero).State; got != s.to || m.line.credential != s.inUse {
					t.Errorf("step %d: state = %s with %s, want %s with %s", i, got, m.line.credential, s.to, s.inUse)
				}
			}
		})
	}
}

// A refusal is reported when it is the second in a row, a trial without a result when it is the third.
func TestMachine_ReportsTrials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   func(*trialFact)
		want []state.Condition
	}{
		"refused": {refuses(state.ReasonUnauthorized), []state.Condition{{}, {Status: metav1.ConditionFalse, Reason: state.ReasonNotInUse, Message: "no"}}},
		"unknown": {func(f *trialFact) {
			f.ok, f.failed = false, state.Condition{Status: metav1.ConditionFalse, Reason: "TimedOut", Message: "no answer"}
		}, []state.Condition{{}, {}, {Status: metav1.ConditionUnknown, Reason: state.ReasonNotInUse, Message: "no answer"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, now := newMachine(), epochZero
			ready(t, m, now)
			m.want.credential = "C2"
			for i, want := range c.want {
				m.decide(now)
				m.applyTrial(attempt(c.of), now)
				if diff := cmp.Diff(want, m.view(now).NewCredential); diff != "" {
					t.Errorf("attempt %d (-want +got):\n%s", i+1, diff)
				}
				now = now.Add(time.Minute)
			}
		})
	}
}

// Modules that need a permission which the new credential lacks end before it is in use.
func TestMachine_FewerPermissions(t *testing.T) {
	t.Parallel()
	m, q := newMachine(), &preflight.Questions{}
	m.want.questions = q
	m.decide(epochZero)
	m.applyProbe(good("E1"), epochZero)
	m.applySurvey("E1", &preflight.Result{Questions: q})
	ready(t, m, epochZero)
	m.want.credential = "C2"
	m.decide(epochZero)
	m.applyTrial(attempt(func(f *trialFact) { f.of, f.lacking = q, map[string][]string{"x": {"list nodes"}} }), epochZero)
	expect := func(want ...actionKind) {
		t.Helper()
		if diff := cmp.Diff(want, kinds(m.decide(epochZero))); diff != "" {
			t.Fatalf("actions (-want +got):\n%s", diff)
		}
	}
	expect()
	m.want.shape, m.trial.chosen = "S2", true // as the actor does
	expect(actPrepare)
	m.applyReady(m.next.epoch, epochZero)
	expect(actYield)
	m.applyYielded(m.app.epoch)
	expect(actRetire, actRelease, actSwap)
	if got := m.line.found.Missing["x"]; len(got) != 1 {
		t.Errorf("the permissions of the credential in use are those of the one before: %v", m.line.found)
	}
}

// A credential that could not be put in use leaves the one before in use, whose refusal counts.
func TestMachine_RejectionAfterAFailedSwap(t *testing.T) {
	t.Parallel()
	m := newMachine()
	ready(t, m, epochZero)
	m.want.credential = "C2"
	m.decide(epochZero)
	m.applyTrial(attempt(func(*trialFact) {}), epochZero)
	m.decide(epochZero)
	m.applySwapFailed("E1", "C1", state.Condition{Status: metav1.ConditionFalse, Reason: "InvalidKubeconfig", Message: "no such key"}, epochZero)
	if got := m.view(epochZero); got.State != state.StateReady || got.NewCredential.Message != "no such key" {
		t.Errorf("state = %s, new credential = %v", got.State, got.NewCredential)
	}
	m.applyProbe(rejected("C1"), epochZero)
	if got := m.view(epochZero); got.State != state.StateUnreachable || got.Reason != state.ReasonUnauthorized {
		t.Errorf("state = %s/%s, want Unreachable/Unauthorized", got.State, got.Reason)
	}
}
