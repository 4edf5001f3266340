// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// remotesIn are remotes in states that the clock decides.
type remotesIn func() []registry.Status

func (f remotesIn) List() []registry.Status { return f() }

func remotesOf(states ...state.State) []registry.Status {
	var all []registry.Status
	for _, s := range states {
		all = append(all, registry.Status{State: s})
	}
	return all
}

// The remotes that start are counted until nothing starts for five seconds, also if the first one comes late.
func TestStarting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var told []int
		s := &starting{tell: func(n int) { told = append(told, n) }, remotes: remotesIn(func() []registry.Status {
			switch seconds := time.Since(begun) / time.Second; {
			case seconds < 2:
				return nil
			case seconds < 4:
				return remotesOf(state.StatePending, state.StateStarting, state.StateReady, state.StateUnreachable)
			}
			return remotesOf(state.StateReady, state.StateReady, state.StateFailed, state.StatePaused)
		})}
		must(t, s.Start(t.Context()))
		testkit.Equal(t, told, []int{0, 0, 2, 2, 0, 0, 0, 0, 0, 0})
	})
}

// A remote that never starts does not keep it going, and neither does the end of the hub.
func TestStarting_Ends(t *testing.T) {
	t.Parallel()
	stuck := remotesIn(func() []registry.Status { return remotesOf(state.StatePending) })
	synctest.Test(t, func(t *testing.T) {
		begun, last := time.Now(), -1
		s := &starting{tell: func(n int) { last = n }, remotes: stuck}
		if err := s.Start(t.Context()); err != nil || last != 0 || time.Since(begun) > 10*time.Minute {
			t.Errorf("got error %v and %d remotes after %s", err, last, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun, last = time.Now(), -1
		if err := s.Start(ctx); err != nil || last != 0 || time.Since(begun) > 3*time.Second {
			t.Errorf("at the end of the hub: got error %v and %d remotes after %s", err, last, time.Since(begun))
		}
	})
}
