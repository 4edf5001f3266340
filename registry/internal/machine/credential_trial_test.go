// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

func attempt(change func(*Tried)) Tried {
	f := Tried{Probed: good("E1")}
	f.Credential = "C2"
	change(&f)
	return f
}

func refuses(reason string) func(*Tried) {
	return func(f *Tried) {
		f.OK, f.Refused, f.Failed = false, true, state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: "no"}
	}
}

func TestMachine_Trials(t *testing.T) {
	t.Parallel()
	type step struct {
		do    func(m *Machine)
		after time.Duration
		want  []ActionKind
		inUse string // the credential
		to    state.State
	}
	of := func(change func(*Tried)) func(*Machine) {
		return func(m *Machine) { m.applyTrial(attempt(change), epochZero) }
	}
	accepts := of(func(*Tried) {})
	refused := of(refuses(state.ReasonUnauthorized))
	fails := of(func(f *Tried) {
		f.OK, f.Failed = false, state.Condition{Status: metav1.ConditionFalse, Reason: "TimedOut", Message: "no answer"}
	})
	anotherCluster := of(func(f *Tried) { f.ID = "uid-2" })
	change := func(f func(*Want)) func(*Machine) {
		return func(m *Machine) {
			w := m.want
			f(&w)
			m.ApplyWant(w)
		}
	}
	renew := change(func(w *Want) { w.Credential = "C2" })
	probe := func(p Probed) func(*Machine) {
		return func(m *Machine) { m.applyProbe(p, epochZero) }
	}
	as := func(p Probed, credential string) Probed {
		p.Credential = credential
		return p
	}
	gone := func(m *Machine) { m.applyGone(m.App.Epoch) }
	nothing := func(*Machine) {}
	lost := func(m *Machine) {
		for range 3 {
			m.applyProbe(bad("E1"), epochZero)
		}
	}
	for name, steps := range map[string][]step{
		"a new credential is tried and then swapped under the running app": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{accepts, 0, []ActionKind{Swap}, "C2", state.StateReady},
			{probe(as(good("E1"), "C2")), 0, nil, "C2", state.StateReady},
		},
		"a refused credential is not used, and tried again": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{refused, 0, nil, "C1", state.StateReady},
			{nothing, 2 * time.Second, []ActionKind{Try}, "C1", state.StateReady},
			{accepts, 2 * time.Second, []ActionKind{Swap}, "C2", state.StateReady},
		},
		"a credential that leads to another cluster is not used": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{anotherCluster, 0, nil, "C1", state.StateReady},
			{nothing, time.Minute, []ActionKind{Try}, "C1", state.StateReady},
		},
		"a credential that leads to another cluster, which the operator accepts, gets another app": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{anotherCluster, 0, nil, "C1", state.StateReady},
			{change(func(w *Want) { w.Identity.Accepted = "uid-2" }), 0, []ActionKind{Try}, "C1", state.StateReady},
			{anotherCluster, 0, []ActionKind{Stop}, "C1", state.StateStarting},
			{gone, 0, []ActionKind{Swap}, "C2", state.StatePending},
			{probe(Probed{Endpoint: "E1", Credential: "C2", OK: true, ID: "uid-2"}), 0, []ActionKind{Start}, "C2", state.StateStarting},
		},
		"a credential that could not be tried is not used": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{fails, 0, nil, "C1", state.StateReady},
			{nothing, time.Minute, []ActionKind{Try}, "C1", state.StateReady},
		},
		"a credential that the operator accepts is used though the remote refuses it": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{refused, 0, nil, "C1", state.StateReady},
			{change(func(w *Want) { w.AcceptCredential = true }), 0, []ActionKind{Stop}, "C1", state.StateStarting},
			{gone, 0, []ActionKind{Swap}, "C2", state.StatePending},
			{probe(rejected("C2")), time.Hour, nil, "C2", state.StateUnreachable},
		},
		"a later credential takes the place of the one on trial": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{change(func(w *Want) { w.Credential = "C3" }), 0, []ActionKind{EndTrial, Try}, "C1", state.StateReady},
			{accepts, 0, nil, "C1", state.StateReady}, // of C2
			{change(func(w *Want) { w.Credential = "C1" }), 0, []ActionKind{EndTrial}, "C1", state.StateReady},
		},
		"the end of the old credential waits for the first result of the new one": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{probe(rejected("C1")), 0, nil, "C1", state.StateReady},
			{accepts, 0, []ActionKind{Swap}, "C2", state.StateReady},
		},
		"the end of the old credential when the new one is refused": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{refused, 0, nil, "C1", state.StateReady},
			{probe(rejected("C1")), 0, []ActionKind{Stop, Swap}, "C2", state.StateUnreachable},
			{gone, 0, nil, "C2", state.StateUnreachable},
			{probe(rejected("C2")), 0, []ActionKind{Try}, "C2", state.StateUnreachable}, // C1, again
			{probe(as(good("E1"), "C2")), 0, []ActionKind{EndTrial, Start}, "C2", state.StateStarting},
		},
		"while the remote is away the newest credential is used first, then the last good one": {
			{lost, 0, []ActionKind{Stop}, "C1", state.StateUnreachable},
			{gone, 0, nil, "C1", state.StateUnreachable},
			{renew, 0, []ActionKind{Swap}, "C2", state.StateUnreachable},
			{probe(rejected("C2")), 0, []ActionKind{Try}, "C2", state.StateUnreachable},
			{func(m *Machine) {
				m.applyTrial(attempt(func(f *Tried) { f.Credential = "C1" }), epochZero)
			}, 0, []ActionKind{Swap}, "C1", state.StateUnreachable},
			{probe(good("E1")), 0, []ActionKind{Start}, "C1", state.StateStarting},
			{nothing, 2 * time.Second, []ActionKind{Try}, "C1", state.StateStarting},
			{accepts, 2 * time.Second, []ActionKind{Swap}, "C2", state.StateStarting},
		},
		"a probe with a credential that was replaced says nothing": {
			{renew, 0, []ActionKind{Try}, "C1", state.StateReady},
			{accepts, 0, []ActionKind{Swap}, "C2", state.StateReady},
			{probe(rejected("C1")), 0, nil, "C2", state.StateReady},
			{probe(rejected("C2")), 0, []ActionKind{Stop, Try}, "C2", state.StateUnreachable}, // C1
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			ready(t, m, epochZero)
			for i, s := range steps {
				s.do(m)
				testkit.Equal(t, kinds(m.Decide(epochZero.Add(s.after))), s.want, "step", i, "actions")
				if got := m.Status(epochZero).State; got != s.to || m.Connection.Credential != s.inUse {
					t.Errorf("step %d: got state %s with %s, want %s with %s", i, got, m.Connection.Credential, s.to, s.inUse)
				}
			}
		})
	}
}

// A refusal is reported after the second in a row, a trial without a result after the third.
func TestMachine_ReportsTrials(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   func(*Tried)
		want []state.Condition
	}{
		"refused": {refuses(state.ReasonUnauthorized), []state.Condition{{}, {Status: metav1.ConditionFalse, Reason: state.ReasonNotInUse, Message: "no"}}},
		"unknown": {func(f *Tried) {
			f.OK, f.Failed = false, state.Condition{Status: metav1.ConditionFalse, Reason: "TimedOut", Message: "no answer"}
		}, []state.Condition{{}, {}, {Status: metav1.ConditionUnknown, Reason: state.ReasonNotInUse, Message: "no answer"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, now := newMachine(), epochZero
			ready(t, m, now)
			m.want.Credential = "C2"
			for i, want := range c.want {
				m.Decide(now)
				m.applyTrial(attempt(c.of), now)
				testkit.Equal(t, m.Status(now).NewCredential, want, "attempt", i+1)
				now = now.Add(time.Minute)
			}
		})
	}
}

// A credential that leads to another cluster, and was put in use because the remote was away, is reported when the last good
// credential replaces it. It is tried again with backoff.
func TestMachine_AnotherClusterWhileAway(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	expect := func(reason string, want ...ActionKind) {
		t.Helper()
		if diff := cmp.Diff(want, kinds(m.Decide(now))); diff != "" {
			t.Fatalf("after %s: actions (-want +got):\n%s", now.Sub(epochZero), diff)
		}
		if got := m.Status(now).NewCredential; got.Reason != reason || got.Problem.ClusterID != "" != (reason != "") {
			t.Fatalf("after %s: got new credential %+v, want the reason %q with the other cluster", now.Sub(epochZero), got, reason)
		}
	}
	leadsTo := func(credential, id string) Probed {
		return Probed{Endpoint: "E1", Credential: credential, OK: true, ID: id}
	}
	for range 3 {
		m.applyProbe(bad("E1"), now)
	}
	expect("", Stop)
	m.applyGone(m.App.Epoch)
	m.want.Credential = "C2"
	expect("", Swap)
	m.applyProbe(leadsTo("C2", "uid-2"), now)
	expect("", Try) // C1
	m.applyTrial(Tried{Probed: leadsTo("C1", "uid-1")}, now)
	expect(state.ReasonNotInUse, Swap, Start)
	m.applyProbe(leadsTo("C1", "uid-1"), now)
	expect(state.ReasonNotInUse)
	now = now.Add(RetryBase)
	expect(state.ReasonNotInUse, Try) // C2
	m.applyTrial(Tried{Probed: leadsTo("C2", "uid-2")}, now)
	now = now.Add(RetryBase)
	expect(state.ReasonNotInUse)
	now = now.Add(RetryBase)
	expect(state.ReasonNotInUse, Try)
}

// Modules that need a permission that the new credential lacks end before that credential is in use.
func TestMachine_FewerPermissions(t *testing.T) {
	t.Parallel()
	m, q := newMachine(), &Questions{}
	m.want.Questions = q
	m.Decide(epochZero)
	m.applyProbe(good("E1"), epochZero)
	m.applyPreflight("E1", &PreflightResult{Questions: q})
	ready(t, m, epochZero)
	m.want.Credential = "C2"
	m.Decide(epochZero)
	m.applyTrial(attempt(func(f *Tried) { f.Questions, f.Missing = q, map[string][]string{"x": {"list nodes"}} }), epochZero)
	expect := func(want ...ActionKind) {
		t.Helper()
		if diff := cmp.Diff(want, kinds(m.Decide(epochZero))); diff != "" {
			t.Fatalf("actions (-want +got):\n%s", diff)
		}
	}
	expect()
	m.want.Shape, m.Trial.Chosen = "S2", true // as the actor does
	expect(Prepare)
	m.applyReady(m.next.Epoch, epochZero)
	expect(Yield)
	m.applyYielded(m.App.Epoch)
	expect(Retire, Release, Swap)
	if got := m.Connection.Found.Missing["x"]; len(got) != 1 {
		t.Errorf("connection has the permissions of the previous credential: %v", m.Connection.Found)
	}
}

// If a credential cannot be put in use, the previous credential stays in use, and its refusal counts.
func TestMachine_RejectionAfterAFailedSwap(t *testing.T) {
	t.Parallel()
	m := newMachine()
	ready(t, m, epochZero)
	m.want.Credential = "C2"
	m.Decide(epochZero)
	m.applyTrial(attempt(func(*Tried) {}), epochZero)
	m.Decide(epochZero)
	m.applySwapFailed("E1", "C1", state.Condition{Status: metav1.ConditionFalse, Reason: "InvalidKubeconfig", Message: "no such key"}, epochZero)
	if got := m.Status(epochZero); got.State != state.StateReady || got.NewCredential.Message != "no such key" {
		t.Errorf("got state %s, new credential %v", got.State, got.NewCredential)
	}
	m.applyProbe(rejected("C1"), epochZero)
	if got := m.Status(epochZero); got.State != state.StateUnreachable || got.Reason != state.ReasonUnauthorized {
		t.Errorf("got state %s/%s, want Unreachable/Unauthorized", got.State, got.Reason)
	}
}
