// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Metrics report the state of each hub part, and count its failures.
func TestHubParts_Metrics(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	_, run, err := hubAppWith(t, fleettest.Cluster(t, "hub").Config(), registry.Options{Metrics: metrics},
		hubModule("faulty", fx.Invoke(func() error { return errors.New("no database") })).Option(),
		hubModule("well", fx.Invoke(func() {})).Option(),
	)
	must(t, err)
	run()
	for module, state := range map[string]string{"faulty": state.ModuleFailed, "well": state.ModuleRunning} {
		eventually(t, func() error {
			if got := metric(t, metrics, "clusterfx_hub_part_state", map[string]string{"module": module, "state": state}); got != 1 {
				return fmt.Errorf("clusterfx_hub_part_state of %s with %s is %v, want 1", module, state, got)
			}
			return nil
		})
	}
	failures := func(module string) float64 {
		labels := map[string]string{"module": module, "reason": state.ReasonBuildFailed}
		return metric(t, metrics, "clusterfx_hub_part_failures_total", labels)
	}
	if failed, well := failures("faulty"), failures("well"); failed == 0 || well > 0 {
		t.Errorf("got %v failures of the faulty hub part, want 1 or more; got %v of the other hub part, want 0", failed, well)
	}
}
