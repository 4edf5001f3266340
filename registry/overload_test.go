// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// While the hub is overloaded, the queues of starts and of first contacts have one slot, and all apps start nevertheless. After the
// overload the queues have all slots again.
func TestRegistry_Overloaded(t *testing.T) {
	t.Parallel()
	var overloaded atomic.Bool
	all := prometheus.NewRegistry()
	r := newRegistry(t, func(o *registry.Options) {
		o.Metrics, o.Limits.Starts, o.Overloaded = all, 8, overloaded.Load
		o.Hasten()
	})
	expectSlots := func(want map[string]float64) {
		t.Helper()
		eventually(t, func() error {
			for queue, slots := range want {
				if got := metric(t, all, "clusterfx_start_slots", map[string]string{"queue": queue}); got != slots {
					return fmt.Errorf("%s: %v slots, want %v", queue, got, slots)
				}
			}
			return nil
		})
	}
	expectSlots(map[string]float64{"apps": 8, "contacts": 64})
	overloaded.Store(true)
	expectSlots(map[string]float64{"apps": 1, "contacts": 1})
	_, config := remote(t, "one")
	names := []registry.ClusterName{"a", "b", "c", "d"}
	for _, name := range names {
		must(t, r.Ensure(name, config))
	}
	for _, name := range names {
		expectState(t, r, name, state.StateReady, state.ReasonReady)
	}
	overloaded.Store(false)
	expectSlots(map[string]float64{"apps": 8, "contacts": 64})
}
