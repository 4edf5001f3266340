// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/state"
)

var epochZero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newMachine() *Machine {
	epochs := int64(0)
	m := &Machine{
		Jitter:    func() float64 { return 0.5 },
		NextEpoch: func() int64 { epochs++; return epochs },
	}
	m.ApplyWant(Want{
		Endpoint: "E1", Credential: "C1", Shape: "S1",
		FailureThreshold: 3, SuccessThreshold: 1,
	})
	return m
}

func kinds(actions []Action) []ActionKind {
	var ks []ActionKind
	for _, a := range actions {
		ks = append(ks, a.Kind)
	}
	return ks
}

func good(endpoint string) Probed {
	return Probed{Endpoint: endpoint, Credential: "C1", OK: true, ID: "uid-1", Version: "v1.36.3"}
}

func rejected(credential string) Probed {
	return Probed{
		Endpoint: "E1", Credential: credential, Fatal: true, Refused: true,
		Failed: state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonUnauthorized, Message: "401"},
	}
}

func bad(endpoint string) Probed {
	return Probed{Endpoint: endpoint, Credential: "C1", Failed: state.Condition{Status: metav1.ConditionFalse, Reason: "Unreachable", Message: "refused"}}
}

func ready(t *testing.T, m *Machine, now time.Time) {
	t.Helper()
	m.Decide(now)
	m.applyProbe(good(m.want.Endpoint), now)
	m.Decide(now)
	m.applyReady(m.App.Epoch, now)
	m.Decide(now)
	if got := m.Status(epochZero).State; got != state.StateReady {
		t.Fatalf("got state %s, want Ready", got)
	}
}

func TestMachine_Decisions(t *testing.T) {
	t.Parallel()
	probe := func(p Probed) func(*Machine, time.Time) {
		return func(m *Machine, now time.Time) { m.applyProbe(p, now) }
	}
	gone := func(m *Machine, _ time.Time) { m.applyGone(m.App.Epoch) }
	nextGone := func(m *Machine, _ time.Time) { m.applyGone(m.next.Epoch) }
	started := func(m *Machine, now time.Time) { m.applyReady(m.App.Epoch, now) }
	warm := func(m *Machine, now time.Time) { m.applyReady(m.next.Epoch, now) }
	yielded := func(m *Machine, _ time.Time) { m.applyYielded(m.App.Epoch) }
	nextFails := func(m *Machine, now time.Time) {
		m.applyEnded(AppEnded{Epoch: m.next.Epoch, Why: Failure{Module: "x", Reason: state.ReasonModuleFailed, Message: "boom"}}, now)
	}
	built := func(steps int) func(*Machine, time.Time) {
		return func(m *Machine, _ time.Time) { m.applyBuilt(m.App.Epoch, steps) }
	}
	remove := change(func(w *Want) { w.Stop, w.RemoveBy = true, epochZero.Add(time.Minute) })
	fails := func(m *Machine, now time.Time) {
		m.applyEnded(AppEnded{Epoch: m.App.Epoch, Why: Failure{Module: "x", Reason: state.ReasonModuleFailed, Message: "boom"}}, now)
	}
	for name, steps := range map[string][]step{
		"a new endpoint is tried and warmed beside the app, which then makes room": {
			{change(func(w *Want) { w.Endpoint = "E2" }), []ActionKind{ConnectSpare}, state.StateReady},
			{probe(good("E1")), nil, state.StateReady},
			{probe(good("E2")), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{yielded, []ActionKind{Retire, Disconnect, Adopt, Release}, state.StateReady},
			{probe(good("E2")), nil, state.StateReady},
		},
		"a new endpoint that does not answer leaves the app alone": {
			{change(func(w *Want) { w.Endpoint = "E2" }), []ActionKind{ConnectSpare}, state.StateReady},
			{probe(bad("E2")), nil, state.StateReady},
			{change(func(w *Want) { w.Endpoint = "E1" }), []ActionKind{DropSpare}, state.StateReady},
		},
		"a new endpoint takes over at once when the old one dies": {
			{change(func(w *Want) { w.Endpoint = "E2" }), []ActionKind{ConnectSpare}, state.StateReady},
			{probe(good("E2")), []ActionKind{Prepare}, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), []ActionKind{Stop}, state.StateUnreachable},
			{gone, []ActionKind{Disconnect, Adopt, Release}, state.StateStarting},
			{started, nil, state.StateReady},
		},
		"a new endpoint that is another cluster stops the app": {
			{change(func(w *Want) { w.Endpoint = "E2" }), []ActionKind{ConnectSpare}, state.StateReady},
			{probe(Probed{Endpoint: "E2", Credential: "C1", OK: true, ID: "uid-2"}), []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Disconnect, Adopt}, state.StateFailed},
		},
		"a third endpoint takes the place of the second": {
			{change(func(w *Want) { w.Endpoint = "E2" }), []ActionKind{ConnectSpare}, state.StateReady},
			{probe(good("E2")), []ActionKind{Prepare}, state.StateReady},
			{change(func(w *Want) { w.Endpoint = "E3" }), []ActionKind{Stop}, state.StateReady},
			{nextGone, []ActionKind{DropSpare, ConnectSpare}, state.StateReady},
		},
		"a starting app is not worth to be kept for a new endpoint": {
			{probe(rejected("C1")), []ActionKind{Stop}, state.StateUnreachable},
			{gone, nil, state.StateUnreachable},
			{probe(good("E1")), []ActionKind{Start}, state.StateStarting},
			{change(func(w *Want) { w.Endpoint = "E2" }), []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Disconnect, Connect}, state.StatePending},
		},
		"another set of modules is warmed beside the app and takes its place": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{yielded, []ActionKind{Retire, Release}, state.StateReady},
		},
		"another set of modules while the app yields: the warm one takes over, and a third is built beside it": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{change(func(w *Want) { w.Shape = "S1" }), nil, state.StateReady},
			{yielded, []ActionKind{Retire, Release, Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{yielded, []ActionKind{Retire, Release}, state.StateReady},
		},
		"a server that moves back while the app yields": {
			{change(func(w *Want) { w.Endpoint = "E2" }), []ActionKind{ConnectSpare}, state.StateReady},
			{probe(good("E2")), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{change(func(w *Want) { w.Endpoint = "E1" }), nil, state.StateReady},
			{yielded, []ActionKind{Retire, Disconnect, Adopt, Release, ConnectSpare}, state.StateReady},
			{probe(good("E1")), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{yielded, []ActionKind{Retire, Disconnect, Adopt, Release}, state.StateReady},
		},
		"the warm app fails while the other one yields": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{nextFails, []ActionKind{Stop}, state.StateReady},
			{yielded, nil, state.StateReady},
			{nextGone, nil, state.StateReady},
			{change(func(w *Want) { w.Shape = "S1" }), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Retire, Release}, state.StateReady},
		},
		"another set of modules that fails leaves the app alone": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{nextFails, []ActionKind{Stop}, state.StateReady},
			{nextGone, nil, state.StateReady},
			{change(func(w *Want) { w.Shape = "S1" }), nil, state.StateReady},
		},
		"a removal cleans up though another set of modules has failed": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{nextFails, []ActionKind{Stop}, state.StateReady},
			{nextGone, nil, state.StateReady},
			{remove, []ActionKind{Clean}, state.StateStopping},
			{change(func(w *Want) { w.RemoveBy = epochZero }), []ActionKind{Stop}, state.StateStopping},
			{change(func(w *Want) { w.RemoveBy = epochZero.Add(time.Hour) }), nil, state.StateStopping},
			{gone, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"another set of modules that is taken back": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{change(func(w *Want) { w.Shape = "S1" }), []ActionKind{Stop}, state.StateReady},
			{nextGone, nil, state.StateReady},
		},
		"a stop while another app warms stops both": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{change(func(w *Want) { w.Stop = true }), []ActionKind{Stop, Stop}, state.StateStopping},
			{gone, nil, state.StateStopping},
			{nextGone, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"a stop while the app yields stops both": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{warm, []ActionKind{Yield}, state.StateReady},
			{change(func(w *Want) { w.Stop = true }), []ActionKind{Stop, Stop}, state.StateStopping},
			{yielded, nil, state.StateStopping},
			{gone, nil, state.StateStopping},
			{nextGone, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"a removal runs the cleanup steps before it stops the app": {
			{remove, []ActionKind{Clean}, state.StateStopping},
			{func(m *Machine, _ time.Time) { m.applyCleaned(m.App.Epoch) }, []ActionKind{Stop}, state.StateStopping},
			{gone, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"a removal without cleanup steps is a stop": {
			{built(0), nil, state.StateReady},
			{remove, []ActionKind{Stop}, state.StateStopping},
		},
		"a removal ends when the remote is lost": {
			{built(1), nil, state.StateReady},
			{remove, []ActionKind{Clean}, state.StateStopping},
			{probe(rejected("C1")), []ActionKind{Stop}, state.StateStopping},
		},
		"a removal that is taken back starts anew": {
			{remove, []ActionKind{Clean}, state.StateStopping},
			{change(func(w *Want) { w.Stop = false }), []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Start}, state.StateStarting},
		},
		"a removal of what is starting waits for it": {
			{probe(rejected("C1")), []ActionKind{Stop}, state.StateUnreachable},
			{gone, nil, state.StateUnreachable},
			{probe(good("E1")), []ActionKind{Start}, state.StateStarting},
			{remove, nil, state.StateStopping},
			{started, []ActionKind{Clean}, state.StateStopping},
		},
		"a quarantined app is not started": {
			{fails, []ActionKind{Stop}, state.StateFailed},
			{change(func(w *Want) {
				w.Credential, w.CrashRecord.Until = "C2", epochZero.Add(time.Hour)
			}), []ActionKind{Try}, state.StateFailed},
			{gone, nil, state.StateFailed},
			{change(func(w *Want) { w.CrashRecord.Until = time.Time{} }), []ActionKind{Start}, state.StateStarting},
		},
		"two failed probes are not an outage, three are": {
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), []ActionKind{Stop}, state.StateUnreachable},
			{gone, nil, state.StateUnreachable},
			{probe(good("E1")), []ActionKind{Start}, state.StateStarting},
		},
		"failed probes count in a row only": {
			{probe(bad("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
			{probe(good("E1")), nil, state.StateReady},
			{probe(bad("E1")), nil, state.StateReady},
		},
		"rejected credentials count at once": {
			{probe(rejected("C1")), []ActionKind{Stop}, state.StateUnreachable},
		},
		"another cluster behind the same address is not touched": {
			{probe(Probed{Endpoint: "E1", Credential: "C1", OK: true, ID: "uid-2"}), []ActionKind{Stop}, state.StateFailed},
			{gone, nil, state.StateFailed},
			{change(func(w *Want) { w.Identity.Accepted = "uid-3" }), nil, state.StateFailed},
			{change(func(w *Want) { w.Identity.Accepted = "uid-2" }), []ActionKind{Start}, state.StateStarting},
		},
		"a second name for a cluster does not run until the first is gone": {
			{probe(Probed{Endpoint: "E1", Credential: "C1", OK: true, ID: "uid-1", Holder: "other"}), []ActionKind{Stop}, state.StateFailed},
			{gone, nil, state.StateFailed},
			{probe(good("E1")), []ActionKind{Start}, state.StateStarting},
		},
		"the hub itself is refused": {
			{probe(Probed{Endpoint: "E1", Credential: "C1", OK: true, ID: "uid-1", IsHub: true}), []ActionKind{Stop}, state.StateFailed},
		},
		"a pause stops the app and then the connection": {
			{change(func(w *Want) { w.Paused = true }), []ActionKind{Stop}, state.StatePaused},
			{gone, []ActionKind{Disconnect}, state.StatePaused},
			{change(func(w *Want) { w.Paused = false }), []ActionKind{Connect}, state.StatePending},
		},
		"the removal of a paused remote waits for no cleanup": {
			{built(1), nil, state.StateReady},
			{change(func(w *Want) { w.Paused = true }), []ActionKind{Stop}, state.StatePaused},
			{gone, []ActionKind{Disconnect}, state.StatePaused},
			{remove, []ActionKind{Forget}, state.StateStopping},
		},
		"a removal while the remote pauses waits for the end of the app only": {
			{built(1), nil, state.StateReady},
			{change(func(w *Want) { w.Paused = true }), []ActionKind{Stop}, state.StatePaused},
			{remove, nil, state.StateStopping},
			{gone, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"a stop forgets the remote when the app is gone": {
			{change(func(w *Want) { w.Stop = true }), []ActionKind{Stop}, state.StateStopping},
			{gone, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"a stop that is taken back starts anew": {
			{change(func(w *Want) { w.Stop = true }), []ActionKind{Stop}, state.StateStopping},
			{change(func(w *Want) { w.Stop = false }), nil, state.StateStarting},
			{gone, []ActionKind{Start}, state.StateStarting},
		},
		"a failed app is stopped and waits for its retry": {
			{fails, []ActionKind{Stop}, state.StateFailed},
			{gone, nil, state.StateFailed},
		},
		"a failed app is retried at once when its configuration changes": {
			{fails, []ActionKind{Stop}, state.StateFailed},
			{change(func(w *Want) { w.Shape = "S2" }), nil, state.StateFailed},
			{gone, []ActionKind{Start}, state.StateStarting},
			{started, nil, state.StateReady},
		},
		"a failure and a new configuration at the same time still stop the app": {
			{func(m *Machine, now time.Time) {
				fails(m, now)
				change(func(w *Want) { w.Shape = "S2" })(m, now)
			}, []ActionKind{Stop}, state.StateFailed},
		},
		"facts of another epoch are ignored": {
			{func(m *Machine, now time.Time) { m.applyEnded(AppEnded{Epoch: m.App.Epoch - 1, Why: Failure{}}, now) }, nil, state.StateReady},
			{func(m *Machine, _ time.Time) { m.applyGone(m.App.Epoch) }, nil, state.StateReady},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			ready(t, m, epochZero)
			expectSteps(t, m, steps)
		})
	}
}

// A remote that was refused at its first contact is not bound to the refused cluster.
func TestMachine_LearnsNothingFromARefusal(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*Probed){
		"the hub":   func(p *Probed) { p.IsHub = true },
		"duplicate": func(p *Probed) { p.Holder = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine()
			m.Decide(epochZero)
			wrong := good("E1")
			wrong.ID = "wrong"
			refuse(&wrong)
			m.applyProbe(wrong, epochZero)
			m.Decide(epochZero)
			if got := m.Status(epochZero).State; got != state.StateFailed {
				t.Fatalf("got state %s, want Failed", got)
			}
			m.applyProbe(good("E1"), epochZero)
			if got := kinds(m.Decide(epochZero)); !cmp.Equal(got, []ActionKind{Start}) {
				t.Errorf("after the Secret was fixed: got actions %v, %s", got, m.Status(epochZero).Message)
			}
		})
	}
}
