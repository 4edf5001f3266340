// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

// If a remote stops responding while its app is built, the failure does not increase the backoff.
func TestMachine_AnUnreachableRemoteIsNoFailure(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	for range 5 {
		m.applyEnded(AppEnded{Epoch: m.App.Epoch, Why: Failure{Reason: state.ReasonStartFailed, OfRemote: true}}, now)
		m.Decide(now)
		m.applyGone(m.App.Epoch)
		m.Decide(now)
		if wait := m.WakeAt(now).Sub(now); wait != RetryBase || m.Failures != 0 {
			t.Fatalf("got wait %s after %d failures, want %s and 0", wait, m.Failures, RetryBase)
		}
		m.applyProbe(bad("E1"), now) // the probe fails as well
		m.applyProbe(good("E1"), now)
		now = m.WakeAt(now)
		m.Decide(now)
	}
}

func TestMachine_Backoff(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	fail := func() time.Duration {
		m.applyEnded(AppEnded{Epoch: m.App.Epoch, Why: Failure{Reason: state.ReasonModuleFailed}}, now)
		m.Decide(now)
		m.applyGone(m.App.Epoch)
		m.Decide(now)
		wait := m.WakeAt(now).Sub(now)
		now = m.WakeAt(now)
		if got := kinds(m.Decide(now)); !cmp.Equal(got, []ActionKind{Start}) {
			t.Fatalf("at the retry time: got actions %v, want a start", got)
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
	testkit.Equal(t, waits, want, "backoff")
	for _, c := range []struct{ health, want time.Duration }{
		{0, 2 * time.Minute},
		{10*time.Minute - 1, 2 * time.Minute},
		{10 * time.Minute, time.Second},
		{0, 2 * time.Second},
	} {
		m.applyReady(m.App.Epoch, now)
		now = now.Add(c.health)
		if got := fail(); got != c.want {
			t.Errorf("app that fails %s after it was ready: got backoff %s, want %s", c.health, got, c.want)
		}
	}
}

// A remote has at most three zombies: no app starts before one of them has ended.
func TestMachine_Zombies(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	for left := 1; ; left++ {
		m.applyEnded(AppEnded{Epoch: m.App.Epoch, Why: Failure{Reason: state.ReasonModuleFailed, Message: "boom"}}, now)
		m.Decide(now)
		m.Zombies = left
		m.applyGone(m.App.Epoch)
		m.Decide(now)
		now = now.Add(time.Hour)
		if began := kinds(m.Decide(now)); len(began) == 0 {
			break
		}
		if left == 3 {
			t.Fatal("fourth app starts beside three apps that have not ended")
		}
	}
	if got := m.Status(now); m.Zombies != 3 || got.State != state.StateFailed || !strings.Contains(got.Message, "3 apps have not ended") {
		t.Errorf("with %d zombies: got %s, %q", m.Zombies, got.State, got.Message)
	}
	if at := m.WakeAt(now); !at.IsZero() {
		t.Errorf("got wake-up at %s, want none", at)
	}
	m.Zombies--
	if got := kinds(m.Decide(now)); !cmp.Equal(got, []ActionKind{Start}) {
		t.Errorf("after the end of a zombie: got actions %v, want a start", got)
	}
}
