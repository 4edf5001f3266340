// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	network "github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// permit is a gate with a term, open at first.
type permit struct {
	closed atomic.Bool
	term   int64
}

func (p *permit) gate(registry.ClusterName) (int64, error) {
	if p.closed.Load() {
		return 0, registry.ErrStandby
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
		"lost-response": {fault: network.LoseAnswers()},
		"canceled":      {network.NeverRead(), func(_ context.Context, u under) error { u.cancel(); return nil }},
		"stopped":       {network.NeverRead(), func(ctx context.Context, u under) error { return u.registry.Stop(ctx, "stopped") }},
		"removed":       {network.NeverRead(), func(ctx context.Context, u under) error { return u.registry.Remove(ctx, "removed") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			remote, p := registry.ClusterName(name), &permit{}
			r, proxy := gatedBehindProxy(t, remote, p)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			must(t, proxy.Set(c.fault))
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

func gatedBehindProxy(t *testing.T, name registry.ClusterName, p *permit) (*registry.Registry, *network.Proxy) {
	t.Helper()
	one := fleettest.Cluster(t, "one")
	proxy, config := behindProxy(t, one, one.Kubeconfig())
	r := newRegistry(t, func(o *registry.Options) { o.Gate = p.gate })
	config.Client.Timeout = writeTimeout
	spawn(t, r, name, config)
	return r, proxy
}

func some() *corev1.ConfigMap {
	one := &corev1.ConfigMap{}
	one.Namespace, one.GenerateName = "default", "writes-"
	return one
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
	must(t, err)
	f, config := newFront(t, fleettest.Cluster(t, "one"))
	w := &writers{fronts: []*front{hub, f}}
	module, apps := handing("writer")
	w.registry = newRegistry(t, func(o *registry.Options) {
		o.Gate, o.Hub, o.Modules = p.gate, toHub, []registry.Module{module}
		o.Middleware = []registry.Middleware{{Name: "passes", Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
				w.passed.Add(1)
				return next.RoundTrip(r)
			})
		}}}
	})
	config.Probe.FailureThreshold = 100 // A busy machine is no reason for another app.
	spawn(t, w.registry, name, config)
	app := <-apps
	own, err := client.New(app.Config, client.Options{Scheme: app.Scheme, Mapper: app.RESTMapper})
	must(t, err)
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

// Whatever writes by way of the gate is in flight until its response has begun, and its user agent has the term of the permission.
func TestRegistry_WritesOfAllClients(t *testing.T) {
	t.Parallel()
	w := newWriters(t, "all", &permit{term: 7})
	info, _ := w.registry.Status("all")
	agent := fmt.Sprintf("clusterfx/hub/all/%d/term-7", info.Epoch)
	arrived, respond := make(chan string), make(chan struct{})
	for _, f := range w.fronts {
		f.set(isWrite, func(w http.ResponseWriter, r *http.Request) {
			arrived <- r.UserAgent()
			<-respond
			f.honest.ServeHTTP(w, r)
		})
	}
	for who, with := range w.with {
		ended := make(chan error, 1)
		go func() { ended <- with(tryCreate(t)) }()
		if got := <-arrived; got != agent {
			t.Errorf("%s: got user agent %s, want %s", who, got, agent)
		}
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
