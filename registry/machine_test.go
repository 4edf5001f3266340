// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/state"
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
	return probeFact{endpoint: endpoint, credential: "C1", ok: true, id: "uid-1", version: "v1.36.3"}
}

func rejected(credential string) probeFact {
	return probeFact{
		endpoint: "E1", credential: credential, fatal: true, refused: true,
		failed: state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonUnauthorized, Message: "401"},
	}
}

func bad(endpoint string) probeFact {
	return probeFact{endpoint: endpoint, credential: "C1", failed: state.Condition{Status: metav1.ConditionFalse, Reason: "Unreachable", Message: "refused"}}
}

// ready brings a machine to Ready.
func ready(t *testing.T, m *machine, now time.Time) {
	t.Helper()
	m.decide(now)
	m.applyProbe(good(m.want.endpoint), now)
	m.decide(now)
	m.applyReady(m.app.epoch, now)
	m.decide(now)
	if got := m.view(epochZero).State; got != state.StateReady {
		t.Fatalf("state = %s, want Ready", got)
	}
}

func TestMachine_Decisions(t *testing.T) {
	t.Parallel()
	type step struct {
		do   func(m *machine, now time.Time)
		want []actionKind
		to   state.State
	}
	probe := func(p probeFact) func(*machine, time.Time) {
		return func(m *machine, now time.Time) { m.applyProbe(p, now) }
	}
	change := func(f func(*want)) func(*machine, time.Time) {
		return func(m *machine, _ time.Time) {
			w := m.want
			f(&w)
			m.applyWant(w)
		}
	}
	gone := func(m *machine, _ time.Time) { m.applyGone(m.app.epoch) }
	nextGone := func(m *machine, _ time.Time) { m.applyGone(m.next.epoch) }
	started := func(m *machine, now time.Time) { m.applyReady(m.app.epoch, now) }
	warm := func(m *machine, now time.Time) { m.applyReady(m.next.epoch, now) }
	yielded := func(m *machine, _ time.Time) { m.applyYielded(m.app.epoch) }
	nextFails := func(m *machine, now time.Time) {
		m.applyEnded(m.next.epoch, failure{module: "x", reason: state.ReasonModuleFailed, message: "boom"}, now)
	}
	built := func(steps int) func(*machine, time.Time) {
		return func(m *machine, _ time.Time) { m.applyBuilt(m.app.epoch, steps) }
	}
	remove := change(func(w *want) { w.stop, w.removeBy = true, epochZero.Add(time.Minute) })
	fails := func(m *machine, now time.Time) {
		m.applyEnded(m.app.epoch, failure{module: "x", reason: state.ReasonModuleFailed, message: "boom"}, now)
	}
	for name, steps := range map[string][]step{
		"a new endpoint is tried and warmed beside the app, which then makes room": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, state.StateReady},
			{probe(good("E1")), nil, state.StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{yielded, []actionKind{actRetire, actDisconnect, actAdopt, actRelease}, state.StateReady},
			{probe(good("E2")), nil, state.StateReady},
		},
		"a new endpoint that does not answer leaves the app alone": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, state.StateReady},
			{probe(bad("E2")), nil, state.StateReady},
			{change(func(w *want) { w.endpoint = "E1" }), []actionKind{actDropSpare}, state.StateReady},
		},
		"a new endpoint takes over at once when the old one dies": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, state.StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), []actionKind{actStop}, state.StateUnreachable},
			{gone, []actionKind{actDisconnect, actAdopt, actRelease}, state.StateStarting},
			{started, nil, state.StateReady},
		},
		"a new endpoint that is another cluster stops the app": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, state.StateReady},
			{probe(probeFact{endpoint: "E2", credential: "C1", ok: true, id: "uid-2"}), []actionKind{actStop}, state.StateStarting},
			{gone, []actionKind{actDisconnect, actAdopt}, state.StateFailed},
		},
		"a third endpoint takes the place of the second": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, state.StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, state.StateReady},
			{change(func(w *want) { w.endpoint = "E3" }), []actionKind{actStop}, state.StateReady},
			{nextGone, []actionKind{actDropSpare, actConnectSpare}, state.StateReady},
		},
		"a starting app is not worth to be kept for a new endpoint": {
			{probe(rejected("C1")), []actionKind{actStop}, state.StateUnreachable},
			{gone, nil, state.StateUnreachable},
			{probe(good("E1")), []actionKind{actStart}, state.StateStarting},
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actStop}, state.StateStarting},
			{gone, []actionKind{actDisconnect, actConnect}, state.StatePending},
		},
		"another set of modules is warmed beside the app and takes its place": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{yielded, []actionKind{actRetire, actRelease}, state.StateReady},
		},
		"another set of modules while the app yields: the warm one takes over, and a third is built beside it": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{change(func(w *want) { w.shape = "S1" }), nil, state.StateReady},
			{yielded, []actionKind{actRetire, actRelease, actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{yielded, []actionKind{actRetire, actRelease}, state.StateReady},
		},
		"a server that moves back while the app yields": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, state.StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{change(func(w *want) { w.endpoint = "E1" }), nil, state.StateReady},
			{yielded, []actionKind{actRetire, actDisconnect, actAdopt, actRelease, actConnectSpare}, state.StateReady},
			{probe(good("E1")), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{yielded, []actionKind{actRetire, actDisconnect, actAdopt, actRelease}, state.StateReady},
		},
		"the warm app fails while the other one yields": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{nextFails, []actionKind{actStop}, state.StateReady},
			{yielded, nil, state.StateReady},
			{nextGone, nil, state.StateReady},
			{change(func(w *want) { w.shape = "S1" }), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actRetire, actRelease}, state.StateReady},
		},
		"another set of modules that fails leaves the app alone": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{nextFails, []actionKind{actStop}, state.StateReady},
			{nextGone, nil, state.StateReady},
			{change(func(w *want) { w.shape = "S1" }), nil, state.StateReady},
		},
		"a removal cleans up though another set of modules has failed": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{nextFails, []actionKind{actStop}, state.StateReady},
			{nextGone, nil, state.StateReady},
			{remove, []actionKind{actClean}, state.StateStopping},
			{change(func(w *want) { w.removeBy = epochZero }), []actionKind{actStop}, state.StateStopping},
			{change(func(w *want) { w.removeBy = epochZero.Add(time.Hour) }), nil, state.StateStopping},
			{gone, []actionKind{actDisconnect, actForget}, state.StateStopping},
		},
		"another set of modules that is taken back": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{change(func(w *want) { w.shape = "S1" }), []actionKind{actStop}, state.StateReady},
			{nextGone, nil, state.StateReady},
		},
		"a stop while another app warms stops both": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{change(func(w *want) { w.stop = true }), []actionKind{actStop, actStop}, state.StateStopping},
			{gone, nil, state.StateStopping},
			{nextGone, []actionKind{actDisconnect, actForget}, state.StateStopping},
		},
		"a stop while the app yields stops both": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, state.StateReady},
			{warm, []actionKind{actYield}, state.StateReady},
			{change(func(w *want) { w.stop = true }), []actionKind{actStop, actStop}, state.StateStopping},
			{yielded, nil, state.StateStopping},
			{gone, nil, state.StateStopping},
			{nextGone, []actionKind{actDisconnect, actForget}, state.StateStopping},
		},
		"a removal runs the cleanup steps before it stops the app": {
			{remove, []actionKind{actClean}, state.StateStopping},
			{func(m *machine, _ time.Time) { m.applyCleaned(m.app.epoch) }, []actionKind{actStop}, state.StateStopping},
			{gone, []actionKind{actDisconnect, actForget}, state.StateStopping},
		},
		"a removal without cleanup steps is a stop": {
			{built(0), nil, state.StateReady},
			{remove, []actionKind{actStop}, state.StateStopping},
		},
		"a removal ends when the remote is lost": {
			{built(1), nil, state.StateReady},
			{remove, []actionKind{actClean}, state.StateStopping},
			{probe(rejected("C1")), []actionKind{actStop}, state.StateStopping},
		},
		"a removal that is taken back starts anew": {
			{remove, []actionKind{actClean}, state.StateStopping},
			{change(func(w *want) { w.stop = false }), []actionKind{actStop}, state.StateStarting},
			{gone, []actionKind{actStart}, state.StateStarting},
		},
		"a removal of what is starting waits for it": {
			{probe(rejected("C1")), []actionKind{actStop}, state.StateUnreachable},
			{gone, nil, state.StateUnreachable},
			{probe(good("E1")), []actionKind{actStart}, state.StateStarting},
			{remove, nil, state.StateStopping},
			{started, []actionKind{actClean}, state.StateStopping},
		},
		"a quarantined app is not started": {
			{fails, []actionKind{actStop}, state.StateFailed},
			{change(func(w *want) {
				w.credential, w.suspicion.Until = "C2", epochZero.Add(time.Hour)
			}), []actionKind{actTry}, state.StateFailed},
			{gone, nil, state.StateFailed},
			{change(func(w *want) { w.suspicion.Until = time.Time{} }), []actionKind{actStart}, state.StateStarting},
		},
		"two failed probes are not an outage, three are": {
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), []actionKind{actStop}, state.StateUnreachable},
			{gone, nil, state.StateUnreachable},
			{probe(good("E1")), []actionKind{actStart}, state.StateStarting},
		},
		"failed probes count in a row only": {
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(good("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
		},
		"rejected credentials count at once": {
			{probe(rejected("C1")), []actionKind{actStop}, state.StateUnreachable},
		},
		"another cluster behind the same address is not touched": {
			{probe(probeFact{endpoint: "E1", credential: "C1", ok: true, id: "uid-2"}), []actionKind{actStop}, state.StateFailed},
			{gone, nil, state.StateFailed},
			{change(func(w *want) { w.identity.Accepted = "uid-3" }), nil, state.StateFailed},
			{change(func(w *want) { w.identity.Accepted = "uid-2" }), []actionKind{actStart}, state.StateStarting},
		},
		"a second name for a cluster does not run until the first is gone": {
			{probe(probeFact{endpoint: "E1", credential: "C1", ok: true, id: "uid-1", holder: "other"}), []actionKind{actStop}, state.StateFailed},
			{gone, nil, state.StateFailed},
			{probe(good("E1")), []actionKind{actStart}, state.StateStarting},
		},
		"the hub itself is refused": {
			{probe(probeFact{endpoint: "E1", credential: "C1", ok: true, id: "uid-1", isHub: true}), []actionKind{actStop}, state.StateFailed},
		},
		"a pause stops the app and then the connection": {
			{change(func(w *want) { w.paused = true }), []actionKind{actStop}, state.StatePaused},
			{gone, []actionKind{actDisconnect}, state.StatePaused},
			{change(func(w *want) { w.paused = false }), []actionKind{actConnect}, state.StatePending},
		},
		"a stop forgets the remote when the app is gone": {
			{change(func(w *want) { w.stop = true }), []actionKind{actStop}, state.StateStopping},
			{gone, []actionKind{actDisconnect, actForget}, state.StateStopping},
		},
		"a stop that is taken back starts anew": {
			{change(func(w *want) { w.stop = true }), []actionKind{actStop}, state.StateStopping},
			{change(func(w *want) { w.stop = false }), nil, state.StateStarting},
			{gone, []actionKind{actStart}, state.StateStarting},
		},
		"a failed app is stopped and waits for its retry": {
			{fails, []actionKind{actStop}, state.StateFailed},
			{gone, nil, state.StateFailed},
		},
		"a failed app is retried at once when its configuration changes": {
			{fails, []actionKind{actStop}, state.StateFailed},
			{change(func(w *want) { w.shape = "S2" }), nil, state.StateFailed},
			{gone, []actionKind{actStart}, state.StateStarting},
			{started, nil, state.StateReady},
		},
		"a failure and a new configuration at the same time still stop the app": {
			{func(m *machine, now time.Time) {
				fails(m, now)
				change(func(w *want) { w.shape = "S2" })(m, now)
			}, []actionKind{actStop}, state.StateFailed},
		},
		"facts of another epoch are ignored": {
			{func(m *machine, now time.Time) { m.applyEnded(m.app.epoch-1, failure{}, now) }, nil, state.StateReady},
			{func(m *machine, _ time.Time) { m.applyGone(m.app.epoch) }, nil, state.StateReady},
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
				if got := m.view(epochZero).State; got != s.to {
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
			m.applyProbe(wrong, epochZero)
			m.decide(epochZero)
			if got := m.view(epochZero).State; got != state.StateFailed {
				t.Fatalf("state = %s, want Failed", got)
			}
			m.applyProbe(good("E1"), epochZero)
			if got := kinds(m.decide(epochZero)); !cmp.Equal(got, []actionKind{actStart}) {
				t.Errorf("after the Secret was mended: actions = %v, %s", got, m.view(epochZero).Message)
			}
		})
	}
}
