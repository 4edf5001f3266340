// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// shift is a module that records which epochs reconcile at the same time.
type shift struct {
	mu      sync.Mutex
	active  map[int64]int // reconciles in progress, by epoch
	overlap []string
	seen    map[string]bool // objects that any epoch has reconciled
}

func (s *shift) module() registry.Module {
	return registry.NewModule("shift", registry.ModuleOptions{Remote: fx.Invoke(s.setUp)})
}

func (s *shift) setUp(p registry.Remote) error {
	served := prometheus.NewCounter(prometheus.CounterOpts{Name: "shift_reconciles_total", Help: "Reconciles."})
	if err := p.Metrics.Register(served); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(p.Manager).Named("shift").For(&corev1.ConfigMap{}).Complete(
		reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			defer s.enter(p.Status.Epoch, r.Name)()
			served.Inc()
			select { // as long as a reconcile that calls the remote
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
			return ctrl.Result{}, nil
		}))
}

func (s *shift) enter(epoch int64, object string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		s.active, s.seen = map[int64]int{}, map[string]bool{}
	}
	s.active[epoch]++
	s.seen[object] = true
	for other, n := range s.active {
		if other != epoch && n > 0 {
			s.overlap = append(s.overlap, fmt.Sprintf("epochs %d and %d", other, epoch))
		}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.active[epoch]--
	}
}

func byName(t *testing.T, c *fleet.Cluster) state.Desired {
	t.Helper()
	return configFor(t, []byte(strings.ReplaceAll(string(c.Kubeconfig()), "127.0.0.1", "localhost")))
}

// While the server of a remote changes back and forth, also while one app replaces another, leases do not fail.
func TestRegistry_EndpointThatMovesToAndFro(t *testing.T) {
	t.Parallel()
	var s shift
	yielding := make(chan struct{}, 1)
	slow := registry.NewModule("slow", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
			<-ctx.Done()
			select {
			case yielding <- struct{}{}:
			default:
			}
			select { // so that there is time for another change
			case <-time.After(200 * time.Millisecond):
			case <-t.Context().Done():
			}
			return nil
		}))
	})})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{s.module(), slow} })
	c, here := remote(t, "one")
	there := byName(t, c)
	spawn(t, r, "restless", here)

	stop, failures, calls := make(chan struct{}), make(chan error, 4), atomic.Int64{}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() { failures <- keepCalling(t.Context(), r, "restless", stop, &calls) })
	}
	for i := range 10 {
		must(t, r.Ensure("restless", []state.Desired{there, here}[i%2]))
		select {
		case <-yielding:
		case err := <-failures:
			t.Fatal(err)
		case <-t.Context().Done():
			t.Fatal("no app has ended")
		}
	}
	expectStatus(t, r, "restless", func(info registry.Status) bool {
		return info.Reason == state.ReasonReady && info.Server == here.Endpoint.Server
	})
	close(stop)
	callers.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			t.Error(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.overlap) > 0 {
		t.Errorf("controllers of two epochs ran at the same time: %v", s.overlap)
	}
	t.Logf("10 changes of the endpoint during %d calls of WithClient", calls.Load())
}

// keepCalling reads from and writes to the remote until stop is closed or a call fails.
func keepCalling(
	ctx context.Context, r *registry.Registry, name registry.ClusterName, stop <-chan struct{}, calls *atomic.Int64,
) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		err := r.WithClient(ctx, name, func(ctx context.Context, c client.Client) error {
			var list corev1.ConfigMapList
			if err := c.List(ctx, &list, client.Limit(1)); err != nil {
				return err
			}
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", GenerateName: "moving-",
			}}, client.DryRunAll)
		})
		if err != nil {
			return fmt.Errorf("after %d calls: %w", calls.Load(), err)
		}
		calls.Add(1)
	}
}

// If the server of a remote becomes that of another cluster, the app stops before any of its requests reaches the other
// cluster, and the remote fails with IdentityChanged.
func TestRegistry_EndpointOfAnotherCluster(t *testing.T) {
	t.Parallel()
	var c counter
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module()} })
	_, one := remote(t, "one")
	other, two := remote(t, "two")
	f, elsewhere := newFront(t, other)
	f.set(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/configmaps") }, f.honest.ServeHTTP)
	spawn(t, r, "moved", one)
	before := newConfigMap(t, other)
	must(t, r.Ensure("moved", elsewhere))
	expectState(t, r, "moved", state.StateFailed, state.ReasonIdentityChanged)
	// The other cluster works under another name: the app of owner marks its objects.
	spawn(t, r, "owner", two)
	for _, key := range []client.ObjectKey{before, newConfigMap(t, other)} {
		expectSeenBy(t, other, key, "owner")
		var one corev1.ConfigMap
		must(t, clientFor(t, other).Get(t.Context(), key, &one))
		if one.Annotations[seenBy("moved")] != "" {
			t.Errorf("the app of moved has marked %s of the other cluster", key)
		}
	}
	if n := f.requests.Load(); n > 0 {
		t.Errorf("the app of moved sent %d requests for ConfigMaps to the other cluster, want 0", n)
	}
}
