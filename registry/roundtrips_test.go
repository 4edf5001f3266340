// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// tripMeter holds every request in front of an API server, and releases the requests that it holds when no other request
// arrives. Requests that depend on no response of each other are held together, so that the number of releases is the
// number of round trips, one after the other, of a slow network. A hub that is short of processor time may send a request
// too late, which makes the number larger and never smaller.
type tripMeter struct {
	*front
	arrived chan heldRequest
	open    chan struct{} // closed when no more requests are held
}

type heldRequest struct {
	*http.Request
	release, ended chan struct{}
}

// newTripMeter returns a tripMeter in front of a cluster, and the configuration of a remote behind it.
func newTripMeter(t *testing.T, cluster string) (*tripMeter, state.Desired) {
	t.Helper()
	f, config := newFront(t, fleettest.Cluster(t, cluster))
	return meterBehind(f), config
}

// meterBehind returns a tripMeter that holds the requests to a front from now on.
func meterBehind(f *front) *tripMeter {
	m := &tripMeter{front: f, arrived: make(chan heldRequest, 1000), open: make(chan struct{})}
	f.set(func(*http.Request) bool { return true }, m.hold)
	return m
}

func (m *tripMeter) hold(w http.ResponseWriter, r *http.Request) {
	held := heldRequest{Request: r, release: make(chan struct{}), ended: make(chan struct{})}
	defer close(held.ended)
	m.arrived <- held
	select {
	case <-held.release:
	case <-m.open:
	case <-r.Context().Done():
	}
	m.honest.ServeHTTP(w, r)
}

// quiet is how long no request arrives before the requests that are held are released.
const quiet = 300 * time.Millisecond

// next returns the requests of the next round trip, which are held.
func (m *tripMeter) next(t *testing.T) []heldRequest {
	t.Helper()
	var all []heldRequest
	pause := time.NewTimer(patience)
	defer pause.Stop()
	for {
		select {
		case one := <-m.arrived:
			all = append(all, one)
			pause.Reset(quiet)
		case <-pause.C:
			if len(all) == 0 {
				t.Fatal("no request arrives")
			}
			return all
		}
	}
}

// answer releases the requests, and returns when those that are no streams have ended.
func (m *tripMeter) answer(all []heldRequest) {
	for _, one := range all {
		close(one.release)
	}
	for _, one := range all {
		if !isWatch(one.Request) {
			<-one.ended
		}
	}
}

// untilList returns the requests of each round trip before the first list of ConfigMaps is sent. It then stops to hold requests.
func (m *tripMeter) untilList(t *testing.T) (trips [][]string, connections int) {
	t.Helper()
	from := map[string]bool{}
	for {
		all, found := m.next(t), false
		var names []string
		for _, one := range all {
			from[one.RemoteAddr] = true
			found = found || one.URL.Path == "/api/v1/configmaps"
			names = append(names, one.Method+" "+one.URL.Path)
		}
		if found {
			m.set(nil, nil)
			close(m.open)
			return trips, len(from)
		}
		trips = append(trips, names)
		m.answer(all)
	}
}

// expectTrips measures a start until a measurement has at most as many round trips as expected: a slow hub makes a
// measurement larger, and never smaller.
func expectTrips(t *testing.T, want int, start func() (trips [][]string, connections int)) {
	t.Helper()
	var all strings.Builder
	for attempt := range 5 {
		trips, connections := start()
		fmt.Fprintf(&all, "attempt %d: %d round trips, after the set-up of %d connections (two round trips each, TCP and TLS 1.3):\n",
			attempt, len(trips), connections)
		for _, one := range trips {
			fmt.Fprintf(&all, "\t%s\n", strings.Join(one, ", "))
		}
		if len(trips) < want {
			t.Errorf("fewer round trips than expected; correct the test and docs/performance.md:\n%s", all.String())
		}
		if len(trips) <= want {
			t.Log(all.String())
			return
		}
	}
	t.Errorf("want %d round trips one after the other before the first list:\n%s", want, all.String())
}

// startMetered starts a remote behind a tripMeter in a registry with a module, and returns the meter.
func startMetered(t *testing.T, options registry.ModuleOptions, change func(*registry.Options)) (*registry.Registry, *tripMeter) {
	t.Helper()
	works := &counter{}
	options.Remote = fx.Invoke(works.setUp)
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{registry.NewModule("counter", options)}
		if change != nil {
			change(o)
		}
	})
	meter, config := newTripMeter(t, "one")
	config.Probe.Period = time.Second
	must(t, r.Ensure("trips", config))
	return r, meter
}

func unchanged(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper { return next }

// untilReady returns the round trips before the first list, once the remote is Ready.
func untilReady(t *testing.T, r *registry.Registry, meter *tripMeter) (trips [][]string, connections int) {
	t.Helper()
	trips, connections = meter.untilList(t)
	expectState(t, r, "trips", state.StateReady, state.ReasonReady)
	return trips, connections
}

// The round trips one after the other, without the set-up of the connection, from the registration of a remote until its
// app lists its first kind.
func TestRegistry_RoundTripsBeforeTheFirstList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options registry.ModuleOptions
		change  func(*registry.Options)
		want    int
	}{
		"no permissions declared": {want: 1},
		"permissions and kinds declared": {want: 1, options: registry.ModuleOptions{
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch", "patch"},
			}},
			Select: registry.Selector{Requires: []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}},
		}},
		"a middleware, which sees no request before the identity is known": {want: 2, change: func(o *registry.Options) {
			o.Middleware = []registry.Middleware{{Name: "idle", Transport: unchanged}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectTrips(t, c.want, func() ([][]string, int) {
				r, meter := startMetered(t, c.options, c.change)
				return untilReady(t, r, meter)
			})
		})
	}
}

// The same from the return of an unreachable remote: on a connection that works the identity comes first, on a new one the health is
// asked beside it. The app asks which kinds the remote serves.
func TestRegistry_RoundTripsAfterAnOutage(t *testing.T) {
	t.Parallel()
	t.Run("503", func(t *testing.T) {
		t.Parallel()
		expectTrips(t, 3, func() ([][]string, int) {
			r, meter := startMetered(t, registry.ModuleOptions{}, nil)
			untilReady(t, r, meter)
			meter.set(func(*http.Request) bool { return true }, refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable))
			expectState(t, r, "trips", state.StateUnreachable, "NotHealthy")
			return untilReady(t, r, meterBehind(meter.front))
		})
	})
	t.Run("refused connections", func(t *testing.T) {
		t.Parallel()
		expectTrips(t, 2, func() ([][]string, int) {
			r, meter, proxy := startBehindProxy(t, &counter{})
			untilReady(t, r, meter)
			must(t, proxy.Set(network.Refuse()))
			expectState(t, r, "trips", state.StateUnreachable, "Unreachable")
			again := meterBehind(meter.front)
			must(t, proxy.Set(network.Pass()))
			return untilReady(t, r, again)
		})
	})
}

// Until the identity of a remote is known and is the expected one, the remote gets requests for what the hub itself needs to
// know. No app sees it.
// Promise: before the identity of a remote is known the hub only asks questions.
func TestRegistry_NothingButQuestionsBeforeTheIdentity(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		identity func(f *front, w http.ResponseWriter, r *http.Request)
		reason   string
		want     state.State
	}{
		"another cluster": {
			func(f *front, w http.ResponseWriter, r *http.Request) { f.honest.ServeHTTP(w, r) },
			state.ReasonIdentityChanged, state.StateFailed,
		},
		"a response that hangs": {
			func(_ *front, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"TimedOut", state.StateUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			works := &counter{}
			r := newRegistry(t, func(o *registry.Options) {
				o.Modules = []registry.Module{registry.NewModule("counter", registry.ModuleOptions{Remote: fx.Invoke(works.setUp)})}
			})
			f, config := newFront(t, fleettest.Cluster(t, "one"))
			config.Probe = state.Probe{Period: time.Second, Timeout: time.Second}
			config.Identity.Known = "the id of another cluster"
			asked := make(chan string, 10_000)
			f.set(func(*http.Request) bool { return true }, func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Method + " " + r.URL.Path
				if r.URL.Path == "/api/v1/namespaces/kube-system" {
					c.identity(f, w, r)
					return
				}
				f.honest.ServeHTTP(w, r)
			})
			must(t, r.Ensure("a", config))
			expectState(t, r, "a", c.want, c.reason)
			if err := r.Stop(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			allowed := []string{"GET /api/v1/namespaces/kube-system", "GET /version", "GET /readyz", "GET /api", "GET /apis"}
			for range len(asked) {
				if one := <-asked; !slices.Contains(allowed, one) {
					t.Errorf("got request %s before the identity is known", one)
				}
			}
			if works.reconciles.Load() > 0 {
				t.Error("a reconciler has seen objects")
			}
		})
	}
}
