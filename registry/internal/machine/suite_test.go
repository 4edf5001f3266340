// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) { os.Exit(fleettest.Main(m, fleettest.NoLeaks())) }

// step is a fact or another desired state, the actions that it leads to, and the state after it.
type step struct {
	do   func(m *Machine, now time.Time)
	want []ActionKind
	to   state.State
}

func change(f func(*Want)) func(*Machine, time.Time) {
	return func(m *Machine, _ time.Time) {
		w := m.want
		f(&w)
		m.ApplyWant(w)
	}
}

// expectSteps takes steps, all of them at the same time.
func expectSteps(t *testing.T, m *Machine, steps []step) {
	t.Helper()
	for i, s := range steps {
		s.do(m, epochZero)
		testkit.Equal(t, kinds(m.Decide(epochZero)), s.want, "step", i, "actions")
		if got := m.Status(epochZero).State; got != s.to {
			t.Errorf("step %d: got state %s, want %s", i, got, s.to)
		}
	}
}
