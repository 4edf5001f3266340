// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/fx"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// startBehindProxy starts a remote behind a tripMeter and a proxy.
func startBehindProxy(t *testing.T, works *counter) (*registry.Registry, *tripMeter, *network.Proxy) {
	t.Helper()
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(works.setUp)})}
	})
	f, _ := newFront(t, fleettest.Cluster(t, "one"))
	proxy, err := network.New(f.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	text, err := proxy.Kubeconfig(f.kubeconfig("not-used"))
	if err != nil {
		t.Fatal(err)
	}
	config := configFor(t, text)
	config.Probe.Period = time.Second
	meter := meterBehind(f)
	if err := r.Ensure("trips", config); err != nil {
		t.Fatal(err)
	}
	return r, meter, proxy
}

// The next app on a connection that works sends its lists beside the question which kinds the remote serves.
func TestRegistry_RoundTripsOfTheNextApp(t *testing.T) {
	t.Parallel()
	expectTrips(t, 0, func() ([][]string, int) {
		works := &counter{}
		r := newRegistry(t, func(o *registry.Options) {
			o.Modules = []registry.Module{registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(works.setUp)})}
		})
		meter, config := newTripMeter(t, "one")
		if err := r.Ensure("trips", config); err != nil {
			t.Fatal(err)
		}
		untilReady(t, r, meter)
		before, _ := r.Status("trips")
		next := meterBehind(meter.front)
		config.Client.QPS = 77
		if err := r.Ensure("trips", config); err != nil {
			t.Fatal(err)
		}
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

// Another endpoint of the remote does not get the lists that were sent to the first one: a server whose identity is not known would
// see them.
func TestRegistry_RoundTripsOnAnotherEndpoint(t *testing.T) {
	t.Parallel()
	expectTrips(t, 1, func() ([][]string, int) {
		r, meter := startMetered(t, registry.ModuleOptions{}, nil)
		untilReady(t, r, meter)
		next, config := newTripMeter(t, "one")
		if err := r.Ensure("trips", config); err != nil {
			t.Fatal(err)
		}
		return untilReady(t, r, next)
	})
}

// An address that leads to another cluster after an outage gets the lists, and no app sees what it responds.
func TestRegistry_ListsOfAnotherCluster(t *testing.T) {
	t.Parallel()
	works := &counter{}
	r, meter, proxy := startBehindProxy(t, works)
	untilReady(t, r, meter)
	if err := proxy.Set(network.Refuse()); err != nil {
		t.Fatal(err)
	}
	expectState(t, r, "trips", state.StateUnreachable, "Unreachable")
	// The reconcilers of the app that is stopped finish what they have begun.
	eventually(t, func() error {
		if now, _ := r.Status("trips"); now.App.Reason != state.ReasonPending {
			return &stateError{want: state.StateUnreachable, reason: "Unreachable, and no app", got: now}
		}
		return nil
	})
	before, lists := works.reconciles.Load(), make(chan string, 1000)
	meter.set(func(*http.Request) bool { return true }, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/namespaces/kube-system":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"another"}}`))
			return
		case "/api/v1/configmaps":
			lists <- r.Method + " " + r.URL.Path
		}
		meter.honest.ServeHTTP(w, r)
	})
	if err := proxy.Set(network.Pass()); err != nil {
		t.Fatal(err)
	}
	expectState(t, r, "trips", state.StateFailed, state.ReasonIdentityChanged)
	<-lists
	if err := r.Stop(t.Context(), "trips"); err != nil {
		t.Fatal(err)
	}
	if again := len(lists); again > 0 {
		t.Errorf("the lists were sent %d times more, want them once", again)
	}
	if after := works.reconciles.Load(); after != before {
		t.Errorf("a reconciler has seen %d objects of another cluster", after-before)
	}
}
