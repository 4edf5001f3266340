// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"context"
	"net/netip"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"

	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// NewRegistry returns a registry for remotes on this machine, with hub as its hub, until the end of the test. Options
// need a scheme and modules.
func NewRegistry(t testing.TB, hub *rest.Config, o registry.Options) *registry.Registry {
	t.Helper()
	o.Hub, o.HubMapper, o.AllowDuplicates, o.Policy = hub, fleettest.Mapper(t, hub), true, loopback()
	r, err := registry.New(o)
	testkit.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Spawn starts the app of a remote, and waits until it is ready.
func Spawn(t testing.TB, r *registry.Registry, name registry.ClusterName, config []byte) {
	t.Helper()
	data := map[string][]byte{"kubeconfig": config}
	connection, err := kubeconfig.Parse(data, kubeconfig.Options{}, loopback())
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	testkit.Must(t, r.Spawn(ctx, name, state.Desired{Endpoint: connection.Endpoint, Credential: connection.Credential}))
}

// Remove deregisters a remote, with its cleanup steps.
func Remove(t testing.TB, r *registry.Registry, name registry.ClusterName) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	testkit.Must(t, r.Remove(ctx, name))
}

func loopback() kubeconfig.Policy {
	return kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}
