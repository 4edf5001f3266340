// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epochZero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newMachine() *machine {
	epochs := int64(0)
	m := &machine{
		jitter:    func() float64 { return 0.5 },
		nextEpoch: func() int64 { epochs++; return epochs },
	}
	m.applyWant(want{
		endpoint: "E1", credential: "C1", shape: "S1",
		failureThreshold: 3, successThreshold: 1,
	})
	return m
}

func kinds(actions []action) []actionKind {
	var ks []actionKind
	for _, a := range actions {
		ks = append(ks, a.kind)
	}
	return ks
}

func good(endpoint string) probeFact {
	return probeFact{endpoint: endpoint, ok: true, id: "uid-1", version: "v1.36.3"}
}

func rejected(credential string) probeFact {
	return probeFact{
		endpoint: "E1", credential: credential, fatal: true,
		failed: Facet{metav1.ConditionFalse, ReasonUnauthorized, "401"},
	}
}

func bad(endpoint string) probeFact {
	return probeFact{endpoint: endpoint, failed: Facet{metav1.ConditionFalse, "Unreachable", "refused"}}
}

// ready brings a machine to Ready.
func ready(t *testing.T, m *machine, now time.Time) {
	t.Helper()
	m.decide(now)
	m.applyProbe(good(m.want.endpoint))
	m.decide(now)
	m.applyReady(m.epoch, now)
	m.decide(now)
	if got := m.view().State; got != StateReady {
		t.Fatalf("state = %s, want Ready", got)
	}
}

func TestMachine_Decisions(t *testing.T) {
	t.Parallel()
	type step struct {
		do   func(m *machine, now time.Time)
		want []actionKind
		to   State
	}
	probe := func(p probeFact) func(*machine, time.Time) {
		return func(m *machine, _ time.Time) { m.applyProbe(p) }
	}
	change := func(f func(*want)) func(*machine, time.Time) {
		return func(m *machine, _ time.Time) {
			w := m.want
			f(&w)
			m.applyWant(w)
		}
	}
	gone := func(m *machine, _ time.Time) { m.applyGone(m.epoch) }
	started := func(m *machine, now time.Time) { m.applyReady(m.epoch, now) }
	fails := func(m *machine, now time.Time) {
		m.applyEnded(m.epoch, failure{module: "x", reason: ReasonModuleFailed, message: "boom"}, now)
	}
	for name, steps := range map[string][]step{
		"a new credential is swapped under the running app": {
			{change(func(w *want) { w.credential = "C2" }), []actionKind{actSwap}, StateReady},
		},
		"a new endpoint stops the app, and the connection is replaced when it is gone": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actStop}, StateStarting},
			{gone, []actionKind{actDisconnect, actConnect}, StatePending},
			{probe(good("E1")), nil, StatePending},
			{probe(good("E2")), []actionKind{actStart}, StateStarting},
		},
		"another set of modules replaces the app and keeps the connection": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actStop}, StateStarting},
			{gone, []actionKind{actStart}, StateStarting},
		},
		"two failed probes are not an outage, three are": {
			{probe(bad("E1")), nil, StateReady},
			{probe(bad("E1")), nil, StateReady},
			{probe(bad("E1")), []actionKind{actStop}, StateUnreachable},
			{gone, nil, StateUnreachable},
			{probe(good("E1")), []actionKind{actStart}, StateStarting},
		},
		"failed probes count in a row only": {
			{probe(bad("E1")), nil, StateReady},
			{probe(bad("E1")), nil, StateReady},
			{probe(good("E1")), nil, StateReady},
			{probe(bad("E1")), nil, StateReady},
		},
		"rejected credentials count at once": {
			{probe(rejected("C1")), []actionKind{actStop}, StateUnreachable},
		},
		"the rejection of a credential that has been replaced meanwhile counts for nothing": {
			{func(m *machine, now time.Time) {
				change(func(w *want) { w.credential = "C2" })(m, now)
				m.applyProbe(rejected("C1"))
			}, []actionKind{actSwap}, StateReady},
			{probe(rejected("C2")), []actionKind{actStop}, StateUnreachable},
		},
		"another cluster behind the same address is not touched": {
			{probe(probeFact{endpoint: "E1", ok: true, id: "uid-2"}), []actionKind{actStop}, StateFailed},
			{gone, nil, StateFailed},
			{change(func(w *want) { w.identity.Accepted = "uid-2" }), []actionKind{actStart}, StateStarting},
		},
		"a second name for a cluster does not run until the first is gone": {
			{probe(probeFact{endpoint: "E1", ok: true, id: "uid-1", holder: "other"}), []actionKind{actStop}, StateFailed},
			{gone, nil, StateFailed},
			{probe(good("E1")), []actionKind{actStart}, StateStarting},
		},
		"the hub itself is refused": {
			{probe(probeFact{endpoint: "E1", ok: true, id: "uid-1", isHub: true}), []actionKind{actStop}, StateFailed},
		},
		"a pause stops the app and then the connection": {
			{change(func(w *want) { w.paused = true }), []actionKind{actStop}, StatePaused},
			{gone, []actionKind{actDisconnect}, StatePaused},
			{change(func(w *want) { w.paused = false }), []actionKind{actConnect}, StatePending},
		},
		"a stop forgets the remote when the app is gone": {
			{change(func(w *want) { w.stop = true }), []actionKind{actStop}, StateStopping},
			{gone, []actionKind{actDisconnect, actForget}, StateStopping},
		},
		"a stop that is taken back starts anew": {
			{change(func(w *want) { w.stop = true }), []actionKind{actStop}, StateStopping},
			{change(func(w *want) { w.stop = false }), nil, StateStarting},
			{gone, []actionKind{actStart}, StateStarting},
		},
		"a failed app is stopped and waits for its retry": {
			{fails, []actionKind{actStop}, StateFailed},
			{gone, nil, StateFailed},
		},
		"a failed app is retried at once when its configuration changes": {
			{fails, []actionKind{actStop}, StateFailed},
			{change(func(w *want) { w.shape = "S2" }), nil, StateFailed},
			{gone, []actionKind{actStart}, StateStarting},
			{started, nil, StateReady},
		},
		"a failure and a new configuration at the same time still stop the app": {
			{func(m *machine, now time.Time) {
				fails(m, now)
				change(func(w *want) { w.shape = "S2" })(m, now)
			}, []actionKind{actStop}, StateFailed},
		},
		"facts of another epoch are ignored": {
			{func(m *machine, now time.Time) { m.applyEnded(m.epoch-1, failure{}, now) }, nil, StateReady},
			{func(m *machine, _ time.Time) { m.applyGone(m.epoch) }, nil, StateReady},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			ready(t, m, epochZero)
			for i, s := range steps {
				s.do(m, epochZero)
				if diff := cmp.Diff(s.want, kinds(m.decide(epochZero))); diff != "" {
					t.Errorf("step %d: actions (-want +got):\n%s", i, diff)
				}
				if got := m.view().State; got != s.to {
					t.Errorf("step %d: state = %s, want %s", i, got, s.to)
				}
			}
		})
	}
}

// A remote that was refused at its first contact is not bound to what it was refused for.
func TestMachine_LearnsNothingFromARefusal(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*probeFact){
		"the hub":   func(p *probeFact) { p.isHub = true },
		"duplicate": func(p *probeFact) { p.holder = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.decide(epochZero)
			wrong := good("E1")
			wrong.id = "wrong"
			refuse(&wrong)
			m.applyProbe(wrong)
			m.decide(epochZero)
			if got := m.view().State; got != StateFailed {
				t.Fatalf("state = %s, want Failed", got)
			}
			m.applyProbe(good("E1"))
			if got := kinds(m.decide(epochZero)); !cmp.Equal(got, []actionKind{actStart}) {
				t.Errorf("after the Secret was mended: actions = %v, %s", got, m.view().Message)
			}
		})
	}
}

// A remote that stops answering while its app is being built has done nothing that deserves a
// growing backoff.
func TestMachine_AnUnreachableRemoteIsNoFailure(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	for range 5 {
		m.applyEnded(m.epoch, failure{reason: ReasonStartFailed, remote: true}, now)
		m.decide(now)
		m.applyGone(m.epoch)
		m.decide(now)
		if wait := m.wakeAt().Sub(now); wait != retryBase || m.failures != 0 {
			t.Fatalf("waits %s after %d failures, want %s and 0", wait, m.failures, retryBase)
		}
		now = m.wakeAt()
		m.decide(now)
	}
}

func TestMachine_Backoff(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	fail := func() time.Duration {
		m.applyEnded(m.epoch, failure{reason: ReasonModuleFailed}, now)
		m.decide(now)
		m.applyGone(m.epoch)
		m.decide(now)
		wait := m.wakeAt().Sub(now)
		now = m.wakeAt()
		if got := kinds(m.decide(now)); !cmp.Equal(got, []actionKind{actStart}) {
			t.Fatalf("at the retry time: actions = %v, want a start", got)
		}
		return wait
	}
	var waits []time.Duration
	for range 9 {
		waits = append(waits, fail())
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 120, 120}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("backoff (-want +got):\n%s", diff)
	}
	m.applyReady(m.epoch, now)
	now = now.Add(retryReset)
	if got := fail(); got != time.Second {
		t.Errorf("after ten minutes of health: backoff = %s, want 1s", got)
	}
}
