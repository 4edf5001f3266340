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
