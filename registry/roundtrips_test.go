// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"

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

// heldRequest is a request that waits.
type heldRequest struct {
	*http.Request
	release, ended chan struct{}
}

// newTripMeter returns a tripMeter in front of a cluster, and the configuration of a remote behind it.
func newTripMeter(t *testing.T, cluster string) (*tripMeter, state.Desired) {
	t.Helper()
	f, config := newFront(t, fleettest.Cluster(t, cluster))
	m := &tripMeter{front: f, arrived: make(chan heldRequest, 1000), open: make(chan struct{})}
	f.set(func(*http.Request) bool { return true }, m.hold)
	return m, config
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

// untilList returns the requests of each round trip before the first list of ConfigMaps is sent. It then stops to hold
// requests.
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

// The round trips one after the other, without the set-up of the connection, from the registration of a remote until its
// app lists its first kind.
func TestRegistry_RoundTripsBeforeTheFirstList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options registry.ModuleOptions
		want    int
	}{
		"no permissions declared": {want: 1},
		"permissions declared": {want: 1, options: registry.ModuleOptions{Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch", "patch"},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempt := 0
			expectTrips(t, c.want, func() ([][]string, int) {
				attempt++
				options, works := c.options, &counter{}
				options.Remote = fx.Invoke(works.setUp)
				r := newRegistry(t, func(o *registry.Options) {
					o.Modules = []registry.Module{registry.NewModule("counter", options)}
				})
				meter, config := newTripMeter(t, "one")
				remote := registry.ClusterName(fmt.Sprintf("trips-%d", attempt))
				if err := r.Ensure(remote, config); err != nil {
					t.Fatal(err)
				}
				trips, connections := meter.untilList(t)
				expectState(t, r, remote, state.StateReady, state.ReasonReady)
				return trips, connections
			})
		})
	}
}
