// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

var errTampered = errors.New("tampered with")

// refusing returns a middleware that refuses every request for Secrets, and records that it was called.
func refusing(name string, asked *sync.Map) registry.Middleware {
	return registry.Middleware{
		Name:   name,
		Select: state.MatchLabels(labels.SelectorFromSet(labels.Set{"refuse": "yes"})),
		Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
				asked.Store(name, true)
				if strings.HasSuffix(r.URL.Path, "/secrets") {
					return nil, errTampered
				}
				return next.RoundTrip(r)
			})
		},
	}
}

// No client of an app or a lease bypasses a middleware, and a label enables and disables the middleware while the clients are in use.
// Promise: no client of a module bypasses a middleware.
func TestMiddleware_CannotBeBypassed(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	var asked sync.Map
	ways := make(chan registry.Remote, 1)
	r := newRegistry(t, func(o *registry.Options) {
		o.Middleware = []registry.Middleware{refusing("refuse", &asked)}
		o.Modules = []registry.Module{registry.NewModule("one", registry.ModuleOptions{
			Remote: fx.Invoke(func(p registry.Remote) { ways <- p }),
		})}
	})
	spawn(t, r, "a", config)
	app := <-ways
	list := func(ctx context.Context, c client.Reader) error { return c.List(ctx, &corev1.SecretList{}) }
	tries := map[string]func(ctx context.Context) error{
		"the API reader":   func(ctx context.Context) error { return list(ctx, app.APIReader) },
		"a client of ours": func(ctx context.Context) error { return list(ctx, app.Manager.GetAPIReader()) },
		"a write": func(ctx context.Context) error {
			return app.Client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("nowhere"))
		},
		"a clientset of the configuration": func(ctx context.Context) error {
			set, err := kubernetes.NewForConfig(app.Config)
			if err != nil {
				return err
			}
			_, err = set.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
			return err
		},
		"WithClient": func(ctx context.Context) error {
			return r.WithClient(ctx, "a", func(ctx context.Context, c client.Client) error { return list(ctx, c) })
		},
		"WithCluster": func(ctx context.Context) error {
			return r.WithCluster(ctx, "a", func(ctx context.Context, c cluster.Cluster) error { return list(ctx, c.GetAPIReader()) })
		},
	}
	for _, refuse := range []bool{false, true, false} {
		config.Labels = map[string]string{"refuse": map[bool]string{true: "yes", false: "no"}[refuse]}
		must(t, r.Ensure("a", config))
		for name, try := range tries {
			eventually(t, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := try(ctx)
				if name == "WithClient" && err == nil {
					return nil // It reads from the cache.
				}
				if errors.Is(err, errTampered) != refuse || !refuse && err != nil {
					return fmt.Errorf("%s with refuse=%t: %w", name, refuse, err)
				}
				return nil
			})
		}
	}
	if info, _ := r.Status("a"); info.Epoch != 1 {
		t.Errorf("got epoch %d, want 1", info.Epoch)
	}
}

// A middleware changes the limits of the remotes that it selects: changed limits start another app.
func TestMiddleware_Client(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "one")
	slow := registry.Middleware{
		Name:   "slow",
		Select: state.MatchLabels(labels.SelectorFromSet(labels.Set{"slow": "yes"})),
		Client: func(c state.ClientLimits) state.ClientLimits { c.QPS, c.Burst = 1, 5; return c },
	}
	metrics := prometheus.NewRegistry()
	r := newRegistry(t, func(o *registry.Options) { o.Middleware, o.Metrics = []registry.Middleware{slow}, metrics })
	spawn(t, r, "a", config)
	eight := func() (took time.Duration) {
		began := time.Now()
		must(t, r.WithCluster(t.Context(), "a", func(ctx context.Context, c cluster.Cluster) error {
			var errs []error
			for range 8 {
				errs = append(errs, c.GetAPIReader().Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}))
			}
			return errors.Join(errs...)
		}))
		return time.Since(began)
	}
	eight()
	waited := metric(t, metrics, "clusterfx_remote_throttle_seconds_total", map[string]string{"cluster": "a"})
	if waited > 1 { // It is the time of eight calls that do not wait.
		t.Errorf("eight requests waited %f s with the default limits, want no wait", waited)
	}
	config.Labels, config.Revision = map[string]string{"slow": "yes"}, "slow"
	must(t, r.Ensure("a", config))
	expectStatus(t, r, "a", func(info registry.Status) bool { return info.Epoch == 2 && info.App.Status == metav1.ConditionTrue })
	if took := eight(); took < 2*time.Second {
		t.Errorf("eight requests took %s with one per second after five, want 2s or more", took)
	}
}
