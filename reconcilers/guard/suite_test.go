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
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	// A life against a real API server takes a fraction of a second. The flag on the command line wins.
	if err := flag.Set("rapid.checks", "30"); err != nil {
		panic(err)
	}
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

const (
	patience  = 60 * time.Second // for what should come within a second or two
	name      = "tunnels"        // of the hosts
	finalizer = guard.Prefix + name
	kind      = "Tunneled" // the condition
	ttl       = time.Hour  // nobody loses a lock because the machine is busy
)

var errBroken = errors.New("broken")

// site is a namespace of a real API server that knows Tunnels.
type site struct {
	t         testing.TB
	config    *rest.Config
	namespace string
	client.WithWatch
}

func newSite(t testing.TB) *site {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	direct, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: scheme(t)})
	must(t, err)
	s := &site{t: t, config: config, WithWatch: direct}
	s.install(crd())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "guard-"}}
	must(t, direct.Create(t.Context(), namespace))
	s.namespace = namespace.Name
	return s
}

func (s *site) install(crd *apiextensionsv1.CustomResourceDefinition) {
	s.t.Helper()
	must(s.t, client.IgnoreAlreadyExists(s.Create(s.t.Context(), crd)))
	s.eventually(func() error { return s.List(s.t.Context(), &TunnelList{}) })
}

// newTunnel creates a Tunnel.
func (s *site) newTunnel(name string, change ...func(*Tunnel)) *Tunnel {
	s.t.Helper()
	tunnel := &Tunnel{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}}
	for _, f := range change {
		f(tunnel)
	}
	must(s.t, s.Create(s.t.Context(), tunnel))
	return tunnel
}

func (s *site) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

func (s *site) get(name string) *Tunnel {
	s.t.Helper()
	tunnel := &Tunnel{}
	must(s.t, s.Get(s.t.Context(), s.key(name), tunnel))
	return tunnel
}

func (s *site) change(name string, f func(*Tunnel)) {
	s.t.Helper()
	s.eventually(func() error {
		tunnel := s.get(name)
		f(tunnel)
		return s.Update(s.t.Context(), tunnel)
	})
}

func (s *site) remove(name string) {
	s.t.Helper()
	must(s.t, s.Delete(s.t.Context(), &Tunnel{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}}))
}

func (s *site) expectGone(name string) {
	s.t.Helper()
	s.eventually(func() error {
		err := s.Get(s.t.Context(), s.key(name), &Tunnel{})
		if err == nil {
			return fmt.Errorf("%s is still there", name)
		}
		return client.IgnoreNotFound(err)
	})
}

// expect checks the condition.
func (s *site) expect(name string, status metav1.ConditionStatus, reason string) metav1.Condition {
	s.t.Helper()
	tunnel := s.get(name)
	if err := check(tunnel, status, reason); err != nil {
		s.t.Error(err)
		return metav1.Condition{}
	}
	return *meta.FindStatusCondition(tunnel.Status.Conditions, kind)
}

func (s *site) expectSoon(name string, status metav1.ConditionStatus, reason string) {
	s.t.Helper()
	s.eventually(func() error { return check(s.get(name), status, reason) })
}

func check(tunnel *Tunnel, status metav1.ConditionStatus, reason string) error {
	has := meta.FindStatusCondition(tunnel.Status.Conditions, kind)
	if has == nil || has.Status != status || has.Reason != reason {
		return fmt.Errorf("%s: want %s/%s, have %+v", tunnel.Name, status, reason, tunnel.Status)
	}
	return nil
}

func (s *site) eventually(f func() error) {
	s.t.Helper()
	gomega.NewWithT(s.t).Eventually(f).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(gomega.Succeed())
}

type (
	host       = guard.Host[*Tunnel]
	controller = guard.Controller[*Tunnel]
	options    = guard.Options[*Tunnel]
	factory    = guard.Factory[*Tunnel]
)

// where the lock is.
var places = map[string]options{
	"in the status": {Conditions: conditions, Locks: locks},
	"in a Lease":    {Conditions: conditions},
}

// inBoth runs a test for each place that locks may be in.
func inBoth(t *testing.T, test func(t *testing.T, s *site, o options)) {
	t.Helper()
	for place, o := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			test(t, newSite(t), named(o))
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

func (s *site) host(o options) *host {
	s.t.Helper()
	return newHost(s.t, s, o)
}

func newHost(t testing.TB, c client.Client, o options) *host {
	t.Helper()
	h, err := guard.NewHost(c, c, o)
	must(t, err)
	return h
}

// controller returns what a reconcile that begins now would have.
func (s *site) controller(h *host, name string) *controller {
	s.t.Helper()
	return s.controllerOf(h, s.get(name), kind)
}

func (s *site) controllerOf(h *host, tunnel *Tunnel, conditionType string) *controller {
	s.t.Helper()
	c, err := h.Controller(s.t.Context(), tunnel, conditionType)
	must(s.t, err)
	return c
}

// done is the outcome of most tasks.
var done = guard.Outcome{Status: metav1.ConditionTrue, Reason: "Done", Message: "It is done"}

// noTask fails the test if it is run.
func noTask(t testing.TB) guard.Task {
	t.Helper()
	return func(context.Context, guard.Attempt) (guard.Outcome, error) {
		t.Error("the task ran")
		return done, nil
	}
}

func (s *site) manager() ctrl.Manager {
	s.t.Helper()
	mgr, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme: scheme(s.t), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
	})
	must(s.t, err)
	return mgr
}

func (s *site) run(mgr ctrl.Manager) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			s.t.Errorf("the manager ended: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	s.t.Cleanup(stop)
	return stop
}

// start runs a reconciler in a manager until the test ends or stop is called.
func (s *site) start(o options, factories ...factory) (stop func()) {
	s.t.Helper()
	mgr := s.manager()
	must(s.t, guard.AddTo(mgr, o, factories...))
	return s.run(mgr)
}

// cloud is an external system that makes what does not say what it is called, such as tunnels. It honours an
// idempotency key: asked a second time with the same key it answers what it answered the first time.
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

// left returns how many there are.
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

// recorder notes events.
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
