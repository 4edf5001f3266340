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

// Histories of a remote that is warm at the beginning.
func TestMachine_Warm(t *testing.T) {
	t.Parallel()
	probe := func(p Probed) func(*Machine, time.Time) {
		return func(m *Machine, _ time.Time) { m.applyProbe(p, epochZero) }
	}
	work := change(func(w *Want) { w.Warm = false })
	warm := change(func(w *Want) { w.Warm = true })
	remove := func(w *Want) { w.Stop, w.RemoveBy = true, epochZero.Add(20*time.Second) }
	ready := func(m *Machine, _ time.Time) { m.applyReady(m.Latest().Epoch, epochZero) }
	gone := func(m *Machine, _ time.Time) { m.applyGone(m.Latest().Epoch) }
	fails := func(m *Machine, _ time.Time) { m.applyEnded(AppEnded{Epoch: m.Latest().Epoch, Why: boom}, epochZero) }
	refused := func(m *Machine, _ time.Time) {
		m.applyEnded(AppEnded{Epoch: m.Latest().Epoch, Why: boom, Refused: true}, epochZero)
	}
	for name, steps := range map[string][]step{
		"the same app works": {
			{work, []ActionKind{Release}, state.StateReady},
		},
		"it is to be warm again": {
			{work, []ActionKind{Release}, state.StateReady},
			{warm, []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Prepare}, state.StateStarting},
			{ready, nil, state.StateWarm},
			{work, []ActionKind{Release}, state.StateReady},
		},
		"it is to work again before its app has ended": {
			{work, []ActionKind{Release}, state.StateReady},
			{warm, []ActionKind{Stop}, state.StateStarting},
			{work, nil, state.StateStarting},
			{gone, []ActionKind{Start}, state.StateStarting},
		},
		"it is to be warm while an app replaces another": {
			{work, []ActionKind{Release}, state.StateReady},
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Prepare}, state.StateReady},
			{func(m *Machine, _ time.Time) { m.applyReady(m.next.Epoch, epochZero) }, []ActionKind{Yield}, state.StateReady},
			{warm, []ActionKind{Stop}, state.StateStarting},
			{change(func(w *Want) { w.Warm, w.Shape = false, "S3" }), []ActionKind{Stop}, state.StateStarting},
			{func(m *Machine, _ time.Time) { m.applyGone(m.App.Epoch) }, nil, state.StateStarting},
			{gone, []ActionKind{Start}, state.StateStarting},
		},
		"the app works before it is built": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Prepare}, state.StateStarting},
			{work, []ActionKind{Release}, state.StateStarting},
			{ready, nil, state.StateReady},
		},
		"a removal stops it, and runs no cleanup steps": {
			{change(remove), []ActionKind{Stop}, state.StateStopping},
			{gone, []ActionKind{Disconnect, Forget}, state.StateStopping},
		},
		"a removal of an app that works from that moment on runs the cleanup steps": {
			{change(func(w *Want) { w.Warm = false; remove(w) }), []ActionKind{Release, Clean}, state.StateStopping},
		},
		"other modules": {
			{change(func(w *Want) { w.Shape = "S2" }), []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Prepare}, state.StateStarting},
			{ready, nil, state.StateWarm},
		},
		"other modules at the moment at which it is to work": {
			{change(func(w *Want) { w.Warm, w.Shape = false, "S2" }), []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Start}, state.StateStarting},
		},
		"another server at the moment at which it is to work": {
			{change(func(w *Want) { w.Warm, w.Endpoint = false, "E2" }), []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Disconnect, Connect}, state.StatePending},
			{probe(good("E2")), []ActionKind{Start}, state.StateStarting},
		},
		"another credential at the moment at which it is to work": {
			{change(func(w *Want) { w.Warm, w.Credential = false, "C2" }), []ActionKind{Release, Try}, state.StateReady},
		},
		"the remote is lost and comes back": {
			{probe(rejected("C1")), []ActionKind{Stop}, state.StateUnreachable},
			{gone, nil, state.StateUnreachable},
			{probe(good("E1")), []ActionKind{Prepare}, state.StateStarting},
			{ready, nil, state.StateWarm},
		},
		"the remote becomes another cluster": {
			{probe(Probed{Endpoint: "E1", Credential: "C1", OK: true, ID: "uid-2"}), []ActionKind{Stop}, state.StateFailed},
		},
		"a pause": {
			{change(func(w *Want) { w.Paused = true }), []ActionKind{Stop}, state.StatePaused},
			{gone, []ActionKind{Disconnect}, state.StatePaused},
			{change(func(w *Want) { w.Paused = false }), []ActionKind{Connect}, state.StatePending},
			{probe(good("E1")), []ActionKind{Prepare}, state.StateStarting},
			{ready, nil, state.StateWarm},
		},
		"the app fails": {
			{fails, []ActionKind{Stop}, state.StateFailed},
			{gone, nil, state.StateFailed},
			{work, []ActionKind{Start}, state.StateStarting},
			{ready, nil, state.StateReady},
		},
		"the app works before it has ended with a failure": {
			{fails, []ActionKind{Stop}, state.StateFailed},
			{work, nil, state.StateStarting},
			{gone, []ActionKind{Start}, state.StateStarting},
		},
		"the app works before it fails because its write was refused": {
			{work, []ActionKind{Release}, state.StateReady},
			{refused, []ActionKind{Stop}, state.StateStarting},
			{gone, []ActionKind{Start}, state.StateStarting},
			{refused, []ActionKind{Stop}, state.StateFailed}, // This app was never warm.
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := warmMachine(t)
			expectSteps(t, m, steps)
		})
	}
}

var boom = Failure{Module: "x", Reason: state.ReasonStartFailed, Message: "boom"}

// An app that fails before it is warm is started again after the backoff, its failure is in the status meanwhile, and the status of the
// app that is warm after it has none. Ten minutes later the backoff starts again, also if the app fails right after it was released.
func TestMachine_WarmAfterFailures(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]bool{"warm": false, "released": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, now := warmMachine(t), epochZero
			for range 3 {
				now = failWarm(t, m, now)
			}
			m.applyReady(m.next.Epoch, now)
			m.Decide(now)
			expectWarm(t, m, now)
			testkit.Equal(t, m.Status(now).Restarts, 3, "restarts")
			if now = now.Add(RetryReset); release {
				m.want.Warm = false
				m.Decide(now)
			}
			m.applyEnded(AppEnded{Epoch: m.Latest().Epoch, Why: boom}, now)
			testkit.Equal(t, m.Status(now).Restarts, 1, "restarts after ten minutes without a failure")
		})
	}
}

// Apps of a warm remote that fail because the gate refuses their writes are started again with a backoff, and do not count.
// Failures of other reasons count until the remote is to work.
func TestMachine_WarmWithoutWrites(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		refused  bool
		restarts int
	}{
		"refused": {refused: true, restarts: 0},
		"others":  {refused: false, restarts: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, now := warmMachine(t), epochZero
			var last time.Duration
			for range 5 {
				m.applyEnded(AppEnded{Epoch: m.next.Epoch, Why: boom, Refused: want.refused}, now)
				m.Decide(now)
				m.applyGone(m.next.Epoch)
				m.Decide(now)
				at := m.WakeAt(now)
				last, now = at.Sub(now), at
				m.Decide(now)
			}
			if last < 10*time.Second {
				t.Errorf("the app is started again after %s, want a backoff that grows", last)
			}
			testkit.Equal(t, m.Status(now).Restarts, want.restarts, "restarts")
			m.ApplyWant(Want{Endpoint: m.want.Endpoint, Credential: m.want.Credential, Shape: m.want.Shape})
			if got := m.Status(now); got.Restarts != 0 || got.App.Status == metav1.ConditionFalse {
				t.Errorf("%d restarts and %+v when the remote is to work, want none and no failure", got.Restarts, got.App)
			}
		})
	}
}

// failWarm lets the next app of a remote fail, and returns when the app after it starts.
func failWarm(t *testing.T, m *Machine, now time.Time) time.Time {
	t.Helper()
	expect := func(to state.State) {
		t.Helper()
		got := m.Status(now)
		if got.State != to || got.App.Status != metav1.ConditionFalse || got.App.Reason != boom.Reason || got.Epoch != m.next.Epoch {
			t.Errorf("status %+v of epoch %d, want state %s and the failure of epoch %d", got.App, got.Epoch, to, m.next.Epoch)
		}
	}
	m.applyEnded(AppEnded{Epoch: m.next.Epoch, Why: boom}, now)
	m.Decide(now)
	expect(state.StateFailed)
	m.applyGone(m.next.Epoch)
	m.Decide(now)
	expect(state.StateFailed)
	if now = m.WakeAt(now); now.IsZero() {
		t.Fatal("the app is not started again")
	}
	if got := kinds(m.Decide(now)); !cmp.Equal(got, []ActionKind{Prepare}) {
		t.Fatalf("actions %v after the backoff, want Prepare", got)
	}
	expect(state.StateStarting)
	return now
}

// A failure of the app before does not remain when a warm app waits that was built beside it.
func TestMachine_WarmAfterTheFailureOfAnother(t *testing.T) {
	t.Parallel()
	m := newMachine()
	ready(t, m, epochZero)
	m.want.Shape = "S2"
	m.Decide(epochZero)
	m.applyReady(m.next.Epoch, epochZero)
	m.Decide(epochZero)
	m.want.Warm = true
	m.applyEnded(AppEnded{Epoch: m.App.Epoch, Why: boom}, epochZero)
	m.Decide(epochZero)
	m.applyGone(m.App.Epoch)
	m.Decide(epochZero)
	expectWarm(t, m, epochZero)
}

func warmMachine(t *testing.T) *Machine {
	t.Helper()
	m := newMachine()
	m.want.Warm = true
	m.Decide(epochZero)
	m.applyProbe(good(m.want.Endpoint), epochZero)
	m.Decide(epochZero)
	m.applyBuilt(m.next.Epoch, 1)
	m.applyReady(m.next.Epoch, epochZero)
	m.Decide(epochZero)
	expectWarm(t, m, epochZero)
	return m
}

func expectWarm(t *testing.T, m *Machine, now time.Time) {
	t.Helper()
	want := state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonStarting, Message: messageWarm}
	got := m.Status(now)
	if got.State != state.StateWarm || got.App != want || got.Epoch != m.next.Epoch || got.Reason != want.Reason {
		t.Fatalf("got state %s (%s), epoch %d and %+v; want Warm, epoch %d and %+v",
			got.State, got.Reason, got.Epoch, got.App, m.next.Epoch, want)
	}
	if m.Failure != nil {
		t.Errorf("the failure %+v remains", m.Failure)
	}
}
