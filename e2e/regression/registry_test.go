// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// newRegistry returns a registry without a hub, and shuts it down when the test ends.
func newRegistry(t *testing.T, change func(*registry.Options)) *registry.Registry {
	t.Helper()
	config := fleettest.Cluster(t, hubCluster).Config()
	scheme, err := newScheme()
	must(t, err)
	o := registry.Options{
		Hub: config, HubMapper: fleettest.Mapper(t, config), Scheme: scheme, Policy: policy,
		AllowDuplicates: true, Modules: []registry.Module{marker()},
	}
	if change != nil {
		change(&o)
	}
	r, err := registry.New(o)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		testkit.NoError(t, r.Shutdown(ctx), "Shutdown")
	})
	return r
}

func (s *scripts) toRegistry(o *registry.Options) { o.Modules = append(o.Modules, s.module()) }

func spawn(t *testing.T, r *registry.Registry, name registry.ClusterName, c state.Desired) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, r.Spawn(ctx, name, c))
}

func epochOf(t *testing.T, r *registry.Registry, name registry.ClusterName) int64 {
	t.Helper()
	info, ok := r.Status(name)
	if !ok {
		t.Fatalf("the registry does not know %s", name)
	}
	return info.Epoch
}
