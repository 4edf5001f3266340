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
	return probeFact{endpoint: endpoint, credential: "C1", ok: true, id: "uid-1", version: "v1.36.3"}
}

func rejected(credential string) probeFact {
	return probeFact{
		endpoint: "E1", credential: credential, fatal: true, refused: true,
		failed: Facet{metav1.ConditionFalse, ReasonUnauthorized, "401"},
	}
}

func bad(endpoint string) probeFact {
	return probeFact{endpoint: endpoint, credential: "C1", failed: Facet{metav1.ConditionFalse, "Unreachable", "refused"}}
}

// ready brings a machine to Ready.
func ready(t *testing.T, m *machine, now time.Time) {
	t.Helper()
	m.decide(now)
	m.applyProbe(good(m.want.endpoint), now)
	m.decide(now)
	m.applyReady(m.app.epoch, now)
	m.decide(now)
	if got := m.view(epochZero).State; got != StateReady {
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
		m.applyEnded(m.next.epoch, failure{module: "x", reason: ReasonModuleFailed, message: "boom"}, now)
	}
	built := func(steps int) func(*machine, time.Time) {
		return func(m *machine, _ time.Time) { m.applyBuilt(m.app.epoch, steps) }
	}
	remove := change(func(w *want) { w.stop, w.removeBy = true, epochZero.Add(time.Minute) })
	fails := func(m *machine, now time.Time) {
		m.applyEnded(m.app.epoch, failure{module: "x", reason: ReasonModuleFailed, message: "boom"}, now)
	}
	for name, steps := range map[string][]step{
		"a new endpoint is tried and warmed beside the app, which then makes room": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, StateReady},
			{probe(good("E1")), nil, StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{yielded, []actionKind{actRetire, actDisconnect, actAdopt, actRelease}, StateReady},
			{probe(good("E2")), nil, StateReady},
		},
		"a new endpoint that does not answer leaves the app alone": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, StateReady},
			{probe(bad("E2")), nil, StateReady},
			{change(func(w *want) { w.endpoint = "E1" }), []actionKind{actDropSpare}, StateReady},
		},
		"a new endpoint takes over at once when the old one dies": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, StateReady},
			{probe(bad("E1")), nil, StateReady},
			{probe(bad("E1")), nil, StateReady},
			{probe(bad("E1")), []actionKind{actStop}, StateUnreachable},
			{gone, []actionKind{actDisconnect, actAdopt, actRelease}, StateStarting},
			{started, nil, StateReady},
		},
		"a new endpoint that is another cluster stops the app": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, StateReady},
			{probe(probeFact{endpoint: "E2", credential: "C1", ok: true, id: "uid-2"}), []actionKind{actStop}, StateStarting},
			{gone, []actionKind{actDisconnect, actAdopt}, StateFailed},
		},
		"a third endpoint takes the place of the second": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, StateReady},
			{change(func(w *want) { w.endpoint = "E3" }), []actionKind{actStop}, StateReady},
			{nextGone, []actionKind{actDropSpare, actConnectSpare}, StateReady},
		},
		"a starting app is not worth to be kept for a new endpoint": {
			{probe(rejected("C1")), []actionKind{actStop}, StateUnreachable},
			{gone, nil, StateUnreachable},
			{probe(good("E1")), []actionKind{actStart}, StateStarting},
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actStop}, StateStarting},
			{gone, []actionKind{actDisconnect, actConnect}, StatePending},
		},
		"another set of modules is warmed beside the app and takes its place": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{yielded, []actionKind{actRetire, actRelease}, StateReady},
		},
		"another set of modules while the app yields: the warm one takes over, and a third is built beside it": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{change(func(w *want) { w.shape = "S1" }), nil, StateReady},
			{yielded, []actionKind{actRetire, actRelease, actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{yielded, []actionKind{actRetire, actRelease}, StateReady},
		},
		"a server that moves back while the app yields": {
			{change(func(w *want) { w.endpoint = "E2" }), []actionKind{actConnectSpare}, StateReady},
			{probe(good("E2")), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{change(func(w *want) { w.endpoint = "E1" }), nil, StateReady},
			{yielded, []actionKind{actRetire, actDisconnect, actAdopt, actRelease, actConnectSpare}, StateReady},
			{probe(good("E1")), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{yielded, []actionKind{actRetire, actDisconnect, actAdopt, actRelease}, StateReady},
		},
		"the warm app fails while the other one yields": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{nextFails, []actionKind{actStop}, StateReady},
			{yielded, nil, StateReady},
			{nextGone, nil, StateReady},
			{change(func(w *want) { w.shape = "S1" }), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actRetire, actRelease}, StateReady},
		},
		"another set of modules that fails leaves the app alone": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{nextFails, []actionKind{actStop}, StateReady},
			{nextGone, nil, StateReady},
			{change(func(w *want) { w.shape = "S1" }), nil, StateReady},
		},
		"a removal cleans up though another set of modules has failed": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{nextFails, []actionKind{actStop}, StateReady},
			{nextGone, nil, StateReady},
			{remove, []actionKind{actClean}, StateStopping},
			{change(func(w *want) { w.removeBy = epochZero }), []actionKind{actStop}, StateStopping},
			{change(func(w *want) { w.removeBy = epochZero.Add(time.Hour) }), nil, StateStopping},
			{gone, []actionKind{actDisconnect, actForget}, StateStopping},
		},
		"another set of modules that is taken back": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{change(func(w *want) { w.shape = "S1" }), []actionKind{actStop}, StateReady},
			{nextGone, nil, StateReady},
		},
		"a stop while another app warms stops both": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{change(func(w *want) { w.stop = true }), []actionKind{actStop, actStop}, StateStopping},
			{gone, nil, StateStopping},
			{nextGone, []actionKind{actDisconnect, actForget}, StateStopping},
		},
		"a stop while the app yields stops both": {
			{change(func(w *want) { w.shape = "S2" }), []actionKind{actPrepare}, StateReady},
			{warm, []actionKind{actYield}, StateReady},
			{change(func(w *want) { w.stop = true }), []actionKind{actStop, actStop}, StateStopping},
			{yielded, nil, StateStopping},
			{gone, nil, StateStopping},
			{nextGone, []actionKind{actDisconnect, actForget}, StateStopping},
		},
		"a removal runs the cleanup steps before it stops the app": {
			{remove, []actionKind{actClean}, StateStopping},
			{func(m *machine, _ time.Time) { m.applyCleaned(m.app.epoch) }, []actionKind{actStop}, StateStopping},
			{gone, []actionKind{actDisconnect, actForget}, StateStopping},
		},
		"a removal without cleanup steps is a stop": {
			{built(0), nil, StateReady},
			{remove, []actionKind{actStop}, StateStopping},
		},
		"a removal ends when the remote is lost": {
			{built(1), nil, StateReady},
			{remove, []actionKind{actClean}, StateStopping},
			{probe(rejected("C1")), []actionKind{actStop}, StateStopping},
		},
		"a removal that is taken back starts anew": {
			{remove, []actionKind{actClean}, StateStopping},
			{change(func(w *want) { w.stop = false }), []actionKind{actStop}, StateStarting},
			{gone, []actionKind{actStart}, StateStarting},
		},
		"a removal of what is starting waits for it": {
			{probe(rejected("C1")), []actionKind{actStop}, StateUnreachable},
			{gone, nil, StateUnreachable},
			{probe(good("E1")), []actionKind{actStart}, StateStarting},
			{remove, nil, StateStopping},
			{started, []actionKind{actClean}, StateStopping},
		},
		"a quarantined app is not started": {
			{fails, []actionKind{actStop}, StateFailed},
			{change(func(w *want) {
				w.credential, w.suspicion.Until = "C2", epochZero.Add(time.Hour)
			}), []actionKind{actTry}, StateFailed},
			{gone, nil, StateFailed},
			{change(func(w *want) { w.suspicion.Until = time.Time{} }), []actionKind{actStart}, StateStarting},
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
		"another cluster behind the same address is not touched": {
			{probe(probeFact{endpoint: "E1", credential: "C1", ok: true, id: "uid-2"}), []actionKind{actStop}, StateFailed},
			{gone, nil, StateFailed},
			{change(func(w *want) { w.identity.Accepted = "uid-3" }), nil, StateFailed},
			{change(func(w *want) { w.identity.Accepted = "uid-2" }), []actionKind{actStart}, StateStarting},
		},
		"a second name for a cluster does not run until the first is gone": {
			{probe(probeFact{endpoint: "E1", credential: "C1", ok: true, id: "uid-1", holder: "other"}), []actionKind{actStop}, StateFailed},
			{gone, nil, StateFailed},
			{probe(good("E1")), []actionKind{actStart}, StateStarting},
		},
		"the hub itself is refused": {
			{probe(probeFact{endpoint: "E1", credential: "C1", ok: true, id: "uid-1", isHub: true}), []actionKind{actStop}, StateFailed},
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
			{func(m *machine, now time.Time) { m.applyEnded(m.app.epoch-1, failure{}, now) }, nil, StateReady},
			{func(m *machine, _ time.Time) { m.applyGone(m.app.epoch) }, nil, StateReady},
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
			if got := m.view(epochZero).State; got != StateFailed {
				t.Fatalf("state = %s, want Failed", got)
			}
			m.applyProbe(good("E1"), epochZero)
			if got := kinds(m.decide(epochZero)); !cmp.Equal(got, []actionKind{actStart}) {
				t.Errorf("after the Secret was mended: actions = %v, %s", got, m.view(epochZero).Message)
			}
		})
	}
}
