// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	fleettest.AtOnce(6)
	// A life against a real API server takes up to a second. The flag on the command line has precedence.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

const (
	name      = "tunnels" // of the hosts
	finalizer = guard.Prefix + name
	kind      = "Tunneled" // the condition
	ttl       = time.Hour  // no replica loses a lock because of a busy machine
)

var errBroken = errors.New("broken")

// server is a namespace of a real API server that serves Tunnels.
type server struct {
	servertest.Kind[Tunnel, *Tunnel]
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{servertest.NewKind[Tunnel](t, fleettest.Cluster(t, "hub").Config(), addTunnels)}
	must(t, client.IgnoreAlreadyExists(s.Create(t.Context(), fleettest.CRD(t, tunnels.WithKind("Tunnel"), tunnelSchema))))
	s.Eventually(func() error { return s.List(t.Context(), &TunnelList{}) })
	return s
}

// expectLeases waits until there are this many Leases. They are deleted after the object.
func (s *server) expectLeases(n int) {
	s.T.Helper()
	s.Eventually(func() error {
		if left := s.leases(); len(left) != n {
			return fmt.Errorf("want %d Leases, got %+v", n, left)
		}
		return nil
	})
}

func (s *server) expect(name string, status metav1.ConditionStatus, reason string) metav1.Condition {
	s.T.Helper()
	tunnel := s.Read(name)
	if err := check(tunnel, status, reason); err != nil {
		s.T.Error(err)
		return metav1.Condition{}
	}
	return *meta.FindStatusCondition(tunnel.Status.Conditions, kind)
}

func (s *server) expectSoon(name string, status metav1.ConditionStatus, reason string) {
	s.T.Helper()
	s.Eventually(func() error { return check(s.Read(name), status, reason) })
}

func check(tunnel *Tunnel, status metav1.ConditionStatus, reason string) error {
	has := meta.FindStatusCondition(tunnel.Status.Conditions, kind)
	if has == nil || has.Status != status || has.Reason != reason {
		return fmt.Errorf("%s: want %s/%s, got %+v", tunnel.Name, status, reason, tunnel.Status)
	}
	return nil
}

type (
	host       = guard.Host[*Tunnel]
	controller = guard.Controller[*Tunnel]
	options    = guard.Options[*Tunnel]
	factory    = guard.Factory[*Tunnel]
)

// places are the options for each location of the locks.
var places = map[string]options{
	"in the status": {Conditions: conditions, Locks: locks},
	"in a Lease":    {Conditions: conditions},
}

// inBoth runs a test for each location of the locks.
func inBoth(t *testing.T, test func(t *testing.T, s *server, o options)) {
	t.Helper()
	for place, o := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			test(t, newServer(t), named(o))
		})
	}
}

func named(o options) options {
	o.Name = name
	if o.TTL == 0 {
		o.TTL = ttl
	}
	return o
}

func inStatus() options { return named(places["in the status"]) }

func (s *server) host(o options) *host {
	s.T.Helper()
	return newHost(s.T, s, o)
}

func newHost(t testing.TB, c client.Client, o options) *host {
	t.Helper()
	h, err := guard.NewHost(c, c, o)
	must(t, err)
	return h
}

// controller returns the Controller of a reconcile that starts now.
func (s *server) controller(h *host, name string) *controller {
	s.T.Helper()
	return s.controllerOf(h, s.Read(name), kind)
}

func (s *server) controllerOf(h *host, tunnel *Tunnel, conditionType string) *controller {
	s.T.Helper()
	c, err := h.Controller(s.T.Context(), tunnel, conditionType)
	must(s.T, err)
	return c
}

// done is the outcome of most tasks.
var done = guard.Outcome{Status: metav1.ConditionTrue, Reason: "Done", Message: "It is done"}

func noTask(t testing.TB) guard.Task {
	t.Helper()
	return func(context.Context, guard.Attempt) (guard.Outcome, error) {
		t.Error("task ran, want no run")
		return done, nil
	}
}

// start runs a reconciler in a manager until the test ends or stop is called.
func (s *server) start(o options, factories ...factory) (stop func()) {
	s.T.Helper()
	mgr := s.Manager()
	must(s.T, guard.AddTo(mgr, o, factories...))
	return s.Run(mgr)
}

// cloud is an external system that chooses the names of its resources, such as tunnels. It honours an idempotency key:
// a second request with the same key gets the response to the first.
type cloud struct {
	mu      sync.Mutex
	made    []string // keys, in order
	deleted []string
}

func (c *cloud) create(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.made, key) {
		c.made = append(c.made, key)
	}
	return "tunnel-" + key
}

func (c *cloud) delete(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.deleted, id) {
		c.deleted = append(c.deleted, id)
	}
}

// left returns the number of existing tunnels.
func (c *cloud) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, key := range c.made {
		if !slices.Contains(c.deleted, "tunnel-"+key) {
			n++
		}
	}
	return n
}

func (c *cloud) everMade() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.made)
}

// recorder records events.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) Eventf(_, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s: %s", eventType, reason, action, fmt.Sprintf(note, args...)))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}
