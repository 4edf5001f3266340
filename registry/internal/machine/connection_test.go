// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// A remote that is lost within a minute of its return must pass twice as many consecutive probes each time, up to
// thirty. A remote that stays for longer must pass one.
func TestMachine_Flaps(t *testing.T) {
	t.Parallel()
	m, now := newMachine(), epochZero
	ready(t, m, now)
	// comesBack loses the remote, and returns the number of consecutive good probes that bring it back.
	comesBack := func() int {
		for range 3 {
			m.applyProbe(bad("E1"), now)
		}
		if got := m.Status(now).State; got != state.StateUnreachable {
			t.Fatalf("got state %s after three failed probes, want Unreachable", got)
		}
		for n := 1; ; n++ {
			m.applyProbe(good("E1"), now)
			if m.Status(now).State != state.StateUnreachable {
				return n
			}
		}
	}
	for i, c := range []struct {
		stays time.Duration // since its last return
		want  int
	}{
		{time.Hour, 1},
		{time.Minute, 2},
		{0, 4},
		{0, 8},
		{time.Minute, 16},
		{0, 30},
		{0, 30},
		{time.Minute + time.Second, 1},
		{time.Minute, 2},
		{time.Hour, 1},
		{time.Hour, 1},
	} {
		now = now.Add(c.stays)
		if got := comesBack(); got != c.want {
			t.Errorf("loss %d, after %s: got %d good probes, want %d", i, c.stays, got, c.want)
		}
	}
}

// The recorded identity has precedence over the learnt identity: if another cluster was accepted, the remote is
// expected to be that cluster, and the first cluster is refused.
func TestMachine_RecordedIdentity(t *testing.T) {
	t.Parallel()
	m := newMachine()
	ready(t, m, epochZero) // learns uid-1
	another := good("E1")
	another.ID = "uid-2"
	m.want.Identity = state.Identity{Known: "uid-2"}
	for _, c := range []struct {
		probe Probed
		want  state.State
	}{{another, state.StateReady}, {good("E1"), state.StateFailed}} {
		m.applyProbe(c.probe, epochZero)
		m.Decide(epochZero)
		if got := m.Status(epochZero); got.State != c.want {
			t.Errorf("probe of %s with uid-2 recorded: got %s (%s)", c.probe.ID, got.State, got.Message)
		}
	}
}

// A remote that asks the hub to wait keeps its app, for as long as it does so, and says so. Before the first contact it is not reachable.
func TestMachine_Throttled(t *testing.T) {
	t.Parallel()
	wait := bad("E1")
	wait.Throttled, wait.Failed.Reason = true, state.ReasonThrottled
	m := newMachine()
	m.Decide(epochZero)
	m.applyProbe(wait, epochZero)
	if s := m.Status(epochZero); s.State != state.StateUnreachable || s.Reachable.Reason != state.ReasonThrottled {
		t.Errorf("before the first contact: %s, %+v", s.State, s.Reachable)
	}
	m = newMachine()
	ready(t, m, epochZero)
	m.applyProbe(bad("E1"), epochZero)
	for range 10 {
		m.applyProbe(wait, epochZero)
		if all := m.Decide(epochZero); len(all) > 0 {
			t.Fatalf("got the actions %v", kinds(all))
		}
	}
	if s := m.Status(epochZero); s.State != state.StateReady || s.Reachable.Reason != state.ReasonThrottled || s.Reachable.Status != "True" {
		t.Errorf("it waits: %s, %+v", s.State, s.Reachable)
	}
	m.applyProbe(good("E1"), epochZero)
	if s := m.Status(epochZero); s.Reachable.Reason != state.ReasonProbeSucceeded {
		t.Errorf("afterwards: %+v", s.Reachable)
	}
}
