// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"testing"
	"time"

	"go.uber.org/fx"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func startBehindProxy(t *testing.T, works *counter) (*registry.Registry, *tripMeter, *network.Proxy) {
	t.Helper()
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(works.setUp)})}
	})
	f, _ := newFront(t, fleettest.Cluster(t, "one"))
	proxy := fleettest.Proxy(t, f.server.URL)
	text, err := proxy.Kubeconfig(f.kubeconfig("not-used"))
	must(t, err)
	config := configFor(t, text)
	config.Probe.Period = time.Second
	meter := meterBehind(f)
	must(t, r.Ensure("trips", config))
	return r, meter, proxy
}

// The next app on a connection that works asks which kinds the remote serves.
func TestRegistry_RoundTripsOfTheNextApp(t *testing.T) {
	t.Parallel()
	expectTrips(t, 1, func() ([][]string, int) {
		works := &counter{}
		r := newRegistry(t, func(o *registry.Options) {
			o.Modules = []registry.Module{registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(works.setUp)})}
		})
		meter, config := newTripMeter(t, "one")
		must(t, r.Ensure("trips", config))
		untilReady(t, r, meter)
		before, _ := r.Status("trips")
		next := meterBehind(meter.front)
		config.Client.QPS = 77
		must(t, r.Ensure("trips", config))
		trips, connections := next.untilList(t)
		eventually(t, func() error {
			if now, _ := r.Status("trips"); now.Epoch == before.Epoch || now.State != state.StateReady {
				return &stateError{got: now}
			}
			return nil
		})
		return trips, connections
	})
}

// Another endpoint of the remote is met like a new remote.
func TestRegistry_RoundTripsOnAnotherEndpoint(t *testing.T) {
	t.Parallel()
	expectTrips(t, 1, func() ([][]string, int) {
		r, meter := startMetered(t, registry.ModuleOptions{}, nil)
		untilReady(t, r, meter)
		next, config := newTripMeter(t, "one")
		must(t, r.Ensure("trips", config))
		return untilReady(t, r, next)
	})
}
