// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/manager"

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

// A hub part that reports what it lacks is Degraded until it reports that the lack has ended, or until its life ends.
func TestHubParts_SetDegraded(t *testing.T) {
	t.Parallel()
	set := make(chan registry.SetDegraded, 2)
	end := make(chan struct{}, 1)
	r, run, err := hubApp(t, registry.NewModule("user", registry.ModuleOptions{
		HubRuns: registry.WithRemotes,
		Hub: fx.Invoke(func(p registry.HubPart) error {
			return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
				set <- p.SetDegraded
				select {
				case <-end:
					return errors.New("the end")
				case <-ctx.Done():
					return nil
				}
			}))
		}),
	}).Option())
	must(t, err)
	run()
	first := <-set
	expectPart(t, r, "user", state.ModuleRunning, "")
	first("NoDatabase", "the database is away; start it")
	if got := expectPart(t, r, "user", state.ModuleDegraded, "the database is away"); got.Reason != "NoDatabase" {
		t.Errorf("got %+v, want the reason NoDatabase", got)
	}
	first("", "")
	expectPart(t, r, "user", state.ModuleRunning, "")
	first("NoDatabase", "the database is away")
	expectPart(t, r, "user", state.ModuleDegraded, "the database is away")
	end <- struct{}{}
	<-set
	expectPart(t, r, "user", state.ModuleRunning, "")
	first("NoDatabase", "of an earlier life")
	expectPart(t, r, "user", state.ModuleRunning, "")
}
