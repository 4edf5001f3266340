// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// roundTrip is a function as an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errTampered = errors.New("tampered with")

// refusing returns a middleware that refuses every request for Secrets, and records that it was called.
func refusing(name string, asked *sync.Map) registry.Middleware {
	return registry.Middleware{
		Name:   name,
		Select: state.MatchLabels(labels.SelectorFromSet(labels.Set{"refuse": "yes"})),
		Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				asked.Store(name, true)
				if strings.HasSuffix(r.URL.Path, "/secrets") {
					return nil, errTampered
				}
				return next.RoundTrip(r)
			})
		},
	}
}

// No client of an app or a lease bypasses a middleware, and a label enables and disables the middleware while the
// clients are in use.
func TestMiddleware_CannotBeBypassed(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "a")
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
		if err := r.Ensure("a", config); err != nil {
			t.Fatal(err)
		}
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

// Middleware is applied in the order of the Order fields, then of the names.
func TestMiddleware_Order(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "a")
	var mu sync.Mutex
	var order []string
	note := func(name string) registry.Middleware {
		return registry.Middleware{Name: name, Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Middleware-Test") != "" || strings.Contains(r.URL.Path, "order-test") {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
				}
				return next.RoundTrip(r)
			})
		}}
	}
	first := note("z")
	first.Order = -1
	r := newRegistry(t, func(o *registry.Options) {
		o.Middleware = []registry.Middleware{note("b"), note("a"), first, note("c")}
	})
	spawn(t, r, "a", config)
	err := r.WithCluster(t.Context(), "a", func(ctx context.Context, c cluster.Cluster) error {
		return client.IgnoreNotFound(c.GetAPIReader().Get(ctx, client.ObjectKey{Name: "order-test"}, &corev1.Namespace{}))
	})
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"z", "a", "b", "c"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("got order %v (%v), want %v", order, err, want)
	}
}

// A middleware that panics fails the requests of its remotes, and does not affect other remotes.
func TestMiddleware_Panics(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "a")
	bad := refusing("bad", &sync.Map{})
	bad.Transport = func(registry.ClusterName, http.RoundTripper) http.RoundTripper {
		return roundTrip(func(*http.Request) (*http.Response, error) { panic("on purpose") })
	}
	worse := bad
	worse.Name, worse.Select = "worse", func(info registry.Status) bool { return info.Labels["worse"] != "" && info.Modules[0].Name != "" }
	r := newRegistry(t, func(o *registry.Options) { o.Middleware = []registry.Middleware{bad, worse} })
	spawn(t, r, "well", config)
	for label, name := range map[string]string{"refuse": "bad", "worse": "worse"} {
		config.Labels = map[string]string{label: "yes"}
		if err := r.Ensure(registry.ClusterName(name), config); err != nil {
			t.Fatal(err)
		}
		info := expectState(t, r, registry.ClusterName(name), state.StateFailed, state.ReasonStartFailed)
		if !strings.Contains(info.Message, name) {
			t.Errorf("got no middleware %s in message: %s", name, info.Message)
		}
	}
	expectState(t, r, "well", state.StateReady, state.ReasonReady)
}

// A middleware changes the limits of the remotes that it selects: changed limits start another app.
func TestMiddleware_Client(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "a")
	slow := registry.Middleware{
		Name:   "slow",
		Select: state.MatchLabels(labels.SelectorFromSet(labels.Set{"slow": "yes"})),
		Client: func(c state.ClientLimits) state.ClientLimits { c.QPS, c.Burst = 1, 5; return c },
	}
	r := newRegistry(t, func(o *registry.Options) { o.Middleware = []registry.Middleware{slow} })
	spawn(t, r, "a", config)
	ten := func() time.Duration {
		began := time.Now()
		err := r.WithCluster(t.Context(), "a", func(ctx context.Context, c cluster.Cluster) error {
			var errs []error
			for range 8 {
				errs = append(errs, c.GetAPIReader().Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{}))
			}
			return errors.Join(errs...)
		})
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	if took := ten(); took > 2*time.Second {
		t.Errorf("eight requests took %s with the default limits, want 2s at most", took)
	}
	config.Labels, config.Revision = map[string]string{"slow": "yes"}, "slow"
	if err := r.Ensure("a", config); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if info, _ := r.Status("a"); info.Epoch != 2 || info.App.Status != metav1.ConditionTrue {
			return fmt.Errorf("got epoch %d, %s", info.Epoch, info.App.Message)
		}
		return nil
	})
	if took := ten(); took < 2*time.Second {
		t.Errorf("eight requests took %s with one per second after five, want 2s or more", took)
	}
}

// A response that a middleware has built itself is treated like a response of the remote, even if it has no body.
func TestMiddleware_OwnAnswers(t *testing.T) {
	t.Parallel()
	_, config := remote(t, "a")
	r := newRegistry(t, func(o *registry.Options) {
		o.Middleware = []registry.Middleware{{Name: "teapot", Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/secrets") {
					return &http.Response{StatusCode: http.StatusTeapot, Request: r, Header: http.Header{}}, nil
				}
				return next.RoundTrip(r)
			})
		}}}
	})
	spawn(t, r, "a", config)
	err := r.WithCluster(t.Context(), "a", func(ctx context.Context, c cluster.Cluster) error {
		return c.GetAPIReader().List(ctx, &corev1.SecretList{})
	})
	if code := apierrors.ReasonForError(err); err == nil || code == metav1.StatusReasonNotFound {
		t.Errorf("list with status 418: got %v, want an error other than NotFound", err)
	}
}

func TestNew_ChecksMiddleware(t *testing.T) {
	t.Parallel()
	hub, _ := remote(t, "hub")
	for _, all := range [][]registry.Middleware{{{}}, {{Name: "a"}, {Name: "a"}}} {
		_, err := registry.New(registry.Options{
			Hub: hub.Config(), HubMapper: mapperFor(t, hub.Config()), Scheme: scheme(t), Middleware: all,
		})
		if err == nil {
			t.Errorf("New accepts middleware %v", all)
		}
	}
}
