// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// permit is a gate with a term, open at first.
type permit struct {
	closed atomic.Bool
	term   int64
}

func (p *permit) gate(registry.ClusterName) (int64, error) {
	if p.closed.Load() {
		return 0, registry.ErrNotLeader
	}
	return p.term, nil
}

// flying returns the error of AwaitWrites if it does not wait: nil if no write is in flight.
func flying(t *testing.T, r *registry.Registry, name registry.ClusterName) error {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	end()
	return r.AwaitWrites(ended, name)
}

// expectFlying waits until one write is in flight.
func expectFlying(t *testing.T, r *registry.Registry, name registry.ClusterName) {
	t.Helper()
	eventually(t, func() error {
		err := flying(t, r, name)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "of which 1 are in flight") {
			return errors.New("AwaitWrites does not report one write in flight")
		}
		return nil
	})
}

func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/configmaps")
}

// A write whose remote does not respond is in flight until it would have timed out, although the gate has been closed, the
// sender has given up, or the remote has been stopped or removed.
func TestRegistry_WritesWithoutResponse(t *testing.T) {
	t.Parallel()
	type under struct { // a write that is under way
		registry *registry.Registry
		proxy    *network.Proxy
		cancel   func()
	}
	for name, c := range map[string]struct {
		fault network.Fault
		end   func(ctx context.Context, u under) error // ends the write early
	}{
		"never-read":    {fault: network.NeverRead()},
		"blackhole":     {fault: network.Blackhole()},
		"lost-response": {fault: network.LoseAnswers()},
		"canceled":      {network.NeverRead(), func(_ context.Context, u under) error { u.cancel(); return nil }},
		"reset":         {network.NeverRead(), func(_ context.Context, u under) error { return u.proxy.Set(network.Reset()) }},
		"stopped":       {network.NeverRead(), func(ctx context.Context, u under) error { return u.registry.Stop(ctx, "stopped") }},
		"removed":       {network.NeverRead(), func(ctx context.Context, u under) error { return u.registry.Remove(ctx, "removed") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote, p := registry.ClusterName(name), &permit{}
			r, proxy := gatedBehindProxy(t, remote, p)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := proxy.Set(c.fault); err != nil {
				t.Fatal(err)
			}
			began, ended := time.Now(), make(chan error, 1)
			go func() {
				ended <- r.WithClient(ctx, remote, func(ctx context.Context, c client.Client) error { return c.Create(ctx, some()) })
			}()
			expectFlying(t, r, remote)
			p.closed.Store(true)
			if c.end != nil {
				if err := c.end(t.Context(), under{r, proxy, cancel}); err != nil {
					t.Errorf("end the write: %v", err)
				}
			}
			if err := <-ended; err == nil {
				t.Error("the write has succeeded")
			}
			if err := r.AwaitWrites(t.Context(), remote); err != nil {
				t.Errorf("AwaitWrites: %v", err)
			}
			if took := time.Since(began); took < writeTimeout {
				t.Errorf("in flight for %s, want %s", took, writeTimeout)
			}
			if err := flying(t, r, remote); err != nil {
				t.Errorf("after that: %v", err)
			}
		})
	}
}

// writeTimeout is the timeout of the requests of the remotes behind proxies.
const writeTimeout = 4 * time.Second

// gatedBehindProxy returns a registry with a remote behind a proxy.
func gatedBehindProxy(t *testing.T, name registry.ClusterName, p *permit) (*registry.Registry, *network.Proxy) {
	t.Helper()
	one := fleettest.Cluster(t, "one")
	proxy, config := behindProxy(t, one, one.Kubeconfig())
	r := newRegistry(t, func(o *registry.Options) { o.Gate = p.gate })
	config.Client.Timeout = writeTimeout
	spawn(t, r, name, config)
	return r, proxy
}

// some returns a new ConfigMap.
func some() *corev1.ConfigMap {
	one := &corev1.ConfigMap{}
	one.Namespace, one.GenerateName = "default", "writes-"
	return one
}

// Nothing is in flight before the first write, for an unknown remote, and after writes that have a response or were refused.
func TestRegistry_WritesWithResponse(t *testing.T) {
	t.Parallel()
	var p permit
	r := newRegistry(t, func(o *registry.Options) { o.Gate = p.gate })
	_, config := remote(t, "one")
	spawn(t, r, "responsive", config)
	for what, write := range map[string]func(client.Client) error{
		"nothing":  func(client.Client) error { return nil },
		"a create": tryCreate(t),
		"a delete": tryDelete(t),
		"a refused write": func(c client.Client) error {
			p.closed.Store(true)
			defer p.closed.Store(false)
			if err := c.Create(t.Context(), some()); !errors.Is(err, registry.ErrNotLeader) {
				t.Errorf("a closed gate: got error %v", err)
			}
			return nil
		},
	} {
		if err := r.WithClient(t.Context(), "responsive", func(_ context.Context, c client.Client) error { return write(c) }); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, name := range []registry.ClusterName{"responsive", "unknown"} {
			if err := flying(t, r, name); err != nil {
				t.Errorf("%s: after %s: %v", name, what, err)
			}
		}
	}
}

// After the gate has been closed and AwaitWrites has returned, no write reaches the server, of a thousand that were under way
// or about to be.
func TestRegistry_NoWriteAfterTheLast(t *testing.T) {
	t.Parallel()
	var p permit
	var sent, late, conflicts, refused atomic.Int64
	var drained atomic.Bool
	closed := make(chan struct{})
	r := newRegistry(t, func(o *registry.Options) { o.Gate = p.gate })
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	conflict := refuse(http.StatusConflict, metav1.StatusReasonConflict) // A thousand creates would keep other tests waiting.
	f.set(isWrite, func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		if drained.Load() {
			late.Add(1)
		}
		<-closed
		conflict(w, r)
	})
	config.Client = state.ClientLimits{QPS: 1e6, Burst: 1e6, Timeout: patience}
	config.Probe = state.Probe{Period: time.Hour, FailureThreshold: 1000} // The app stays, although the writes delay its probes.
	spawn(t, r, "busy", config)

	var writers sync.WaitGroup
	for range 1000 {
		writers.Go(func() {
			err := r.WithClient(t.Context(), "busy", func(ctx context.Context, c client.Client) error { return c.Create(ctx, some()) })
			switch {
			case apierrors.IsConflict(err):
				conflicts.Add(1)
			case errors.Is(err, registry.ErrNotLeader):
				refused.Add(1)
			default:
				t.Errorf("a write: %v", err)
			}
		})
	}
	eventually(t, func() error {
		if sent.Load() < 200 {
			return errors.New("few writes have been sent")
		}
		return nil
	})
	p.closed.Store(true)
	close(closed)
	if err := r.AwaitWrites(t.Context(), "busy"); err != nil {
		t.Errorf("AwaitWrites: %v", err)
	}
	drained.Store(true)
	writers.Wait()
	if late.Load() > 0 || sent.Load() != conflicts.Load() {
		t.Errorf("%d of %d writes are late, %d have a response; want none, and all", late.Load(), sent.Load(), conflicts.Load())
	}
	t.Logf("%d writes have a response, %d were refused", conflicts.Load(), refused.Load())
	if err := flying(t, r, "busy"); err != nil {
		t.Errorf("after all: %v", err)
	}
}

// writers are a registry, the front of its hub and of its remote, and what writes by way of the gate.
type writers struct {
	registry *registry.Registry
	fronts   []*front
	passed   atomic.Int64 // requests through the middleware
	with     map[string]func(func(client.Client) error) error
}

func newWriters(t *testing.T, name registry.ClusterName, p *permit) *writers {
	t.Helper()
	hub, _ := newFront(t, fleettest.Cluster(t, "hub"))
	toHub, err := clientcmd.RESTConfigFromKubeConfig(hub.kubeconfig("not-used"))
	if err != nil {
		t.Fatal(err)
	}
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	w, apps := &writers{fronts: []*front{hub, f}}, make(chan registry.Remote, 100)
	w.registry = newRegistry(t, func(o *registry.Options) {
		o.Gate, o.Hub = p.gate, toHub
		o.Modules = []registry.Module{registry.NewModule("writer", registry.ModuleOptions{
			Remote: fx.Invoke(func(p registry.Remote) { apps <- p }),
		})}
		o.Middleware = []registry.Middleware{{Name: "passes", Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				w.passed.Add(1)
				return next.RoundTrip(r)
			})
		}}}
	})
	config.Probe.FailureThreshold = 100 // A busy machine is no reason for another app.
	spawn(t, w.registry, name, config)
	app := <-apps
	own, err := client.New(app.Config, client.Options{Scheme: app.Scheme, Mapper: app.RESTMapper})
	if err != nil {
		t.Fatal(err)
	}
	w.with = map[string]func(func(client.Client) error) error{
		"the app's client":            func(f func(client.Client) error) error { return f(app.Client) },
		"a client of its own":         func(f func(client.Client) error) error { return f(own) },
		"the app's client of the hub": func(f func(client.Client) error) error { return f(app.HubClient) },
		"a lease": func(f func(client.Client) error) error {
			return w.registry.WithClient(t.Context(), name, func(_ context.Context, c client.Client) error { return f(c) })
		},
	}
	return w
}

// Whatever writes by way of the gate is in flight until its response has begun.
func TestRegistry_WritesOfAllClients(t *testing.T) {
	t.Parallel()
	w := newWriters(t, "all", &permit{})
	arrived, respond := make(chan struct{}), make(chan struct{})
	for _, f := range w.fronts {
		f.set(isWrite, func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			<-respond
			f.honest.ServeHTTP(w, r)
		})
	}
	for who, with := range w.with {
		ended := make(chan error, 1)
		go func() { ended <- with(tryCreate(t)) }()
		<-arrived
		if err := flying(t, w.registry, "all"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v while the write is in flight", who, err)
		}
		respond <- struct{}{}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", who, err)
		}
		if err := flying(t, w.registry, "all"); err != nil {
			t.Errorf("%s: after the response: %v", who, err)
		}
	}
	if w.passed.Load() == 0 {
		t.Error("no request passed the middleware")
	}
}

// The user agent of each write has the term of the permission, and that of a read has not.
func TestRegistry_GateTermOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWriters(t, "termed", &permit{term: 7})
	var mu sync.Mutex
	agents := map[string]bool{}
	for _, f := range w.fronts {
		f.set(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/configmaps") }, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			agents[r.Method+" "+r.UserAgent()] = true
			mu.Unlock()
			f.honest.ServeHTTP(w, r)
		})
	}
	info, _ := w.registry.Status("termed")
	agent := fmt.Sprintf("clusterfx/hub/termed/%d", info.Epoch)
	for who, with := range w.with {
		for _, do := range []func(client.Client) error{tryCreate(t), tryDelete(t), func(c client.Client) error {
			return client.IgnoreNotFound(c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "none"}, &corev1.ConfigMap{}))
		}} {
			if err := with(do); err != nil {
				t.Errorf("%s: %v", who, err)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"POST " + agent + "/term-7", "DELETE " + agent + "/term-7", "GET " + agent} {
		if !agents[want] {
			t.Errorf("no request is %s", want)
		}
		delete(agents, want)
	}
	if len(agents) > 0 {
		t.Errorf("there are other requests: %v", agents)
	}
}
