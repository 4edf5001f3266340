// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Names of the remotes of the tests below: the remote with the fault, and its neighbour.
const (
	sick    = "sick"
	healthy = "healthy"
)

// ward has two remotes with the same modules. In one of the remotes, a module has a fault.
type ward struct {
	*registry.Registry
	t       *testing.T
	metrics *prometheus.Registry
	sick    *fleet.Cluster
	beside  *neighbour
	ill     atomic.Bool
}

// isIll reports whether the module must fail in this app now.
func (w *ward) isIll(p registry.Remote) bool { return p.Name == sick && w.ill.Load() }

// newWard starts both remotes with a module named "broken", which setUp sets up, and a module that works.
func newWard(t *testing.T, setUp func(*ward, registry.Remote) error, change func(*registry.Options)) *ward {
	t.Helper()
	var c counter
	w := &ward{t: t, metrics: prometheus.NewRegistry()}
	broken := registry.NewModule("broken", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) error { return setUp(w, p) }),
	})
	w.Registry = newRegistry(t, func(o *registry.Options) {
		o.Modules, o.Metrics = []registry.Module{broken, c.module()}, w.metrics
		if change != nil {
			change(o)
		}
	})
	w.sick = fleettest.Clusters(t, "one", "two")[0]
	spawn(t, w.Registry, sick, configFor(t, w.sick.Kubeconfig()))
	w.beside = newNeighbour(t, w.Registry, "two")
	return w
}

// expectIllness waits until the app of the sick remote has failed twice because of the module, and its condition reports this.
func (w *ward) expectIllness(t *testing.T, reason string, texts ...string) {
	t.Helper()
	before, _ := w.Status(sick)
	eventually(t, func() error {
		info, _ := w.Status(sick)
		said := info.App.Reason == reason && info.App.Message != ""
		for _, text := range append(texts, `"broken"`) {
			said = said && strings.Contains(info.App.Message, text)
		}
		if !said || info.Restarts < 2 || info.Epoch <= before.Epoch {
			return &stateError{want: state.StateFailed, reason: reason, got: info}
		}
		return nil
	})
}

// expectModuleFailed waits until the list of modules reports the broken module as Failed.
func (w *ward) expectModuleFailed(t *testing.T, reason string) {
	t.Helper()
	eventually(t, func() error {
		info, _ := w.Status(sick)
		if !slices.ContainsFunc(info.Modules, func(m state.ModuleStatus) bool {
			return m.Name == "broken" && m.State == state.ModuleFailed && m.Reason == reason
		}) {
			return fmt.Errorf("got modules %+v, want broken to be Failed", info.Modules)
		}
		return nil
	})
}

// scrape gathers the metrics repeatedly until the function that it returns is called.
func (w *ward) scrape(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for poll := time.Tick(5 * time.Millisecond); ctx.Err() == nil; <-poll {
			if _, err := w.metrics.Gather(); err != nil {
				t.Errorf("Gather: %v", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// collector calls a function each time its metrics are gathered.
type collector struct{ do func() }

func (c collector) Describe(to chan<- *prometheus.Desc) { to <- c.desc() }

func (c collector) Collect(to chan<- prometheus.Metric) {
	c.do()
	to <- prometheus.MustNewConstMetric(c.desc(), prometheus.GaugeValue, 1)
}

func (c collector) desc() *prometheus.Desc { return prometheus.NewDesc("broken", "A test.", nil, nil) }

// panics returns the counter of panics of a module in the sick remote.
func (w *ward) panics(t *testing.T, module string) float64 {
	t.Helper()
	return metric(t, w.metrics, "clusterfx_module_panics_total", map[string]string{"cluster": sick, "module": module})
}

var nothing = reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })

// watching sets up a controller of ConfigMaps that reconciles nothing. The tests use its handler and options.
func watching(p registry.Remote, h handler.EventHandler, o ...builder.WatchesOption) error {
	return ctrl.NewControllerManagedBy(p.Manager).Named("broken").Watches(&corev1.ConfigMap{}, h, o...).Complete(nothing)
}

// Code of a module that panics in goroutines of controller-runtime and client-go ends its app with an error that names
// the module. The app restarts with backoff, and the neighbour is not affected.
func TestContain_Panics(t *testing.T) {
	t.Parallel()
	boom := func(w *ward, p registry.Remote) {
		if w.isIll(p) {
			panic("boom")
		}
	}
	for name, c := range map[string]struct {
		setUp func(*ward, registry.Remote) error
		says  string
	}{
		"a metadata-only map function": {func(w *ward, p registry.Remote) error {
			return watching(p, handler.EnqueueRequestsFromMapFunc(
				func(context.Context, client.Object) []ctrl.Request { boom(w, p); return nil }), builder.OnlyMetadata)
		}, "panic: boom"},
		"an indexer": {func(w *ward, p registry.Remote) error {
			return p.Manager.GetFieldIndexer().IndexField(w.t.Context(), &corev1.ConfigMap{}, "data",
				func(client.Object) []string { boom(w, p); return nil })
		}, "index data: panic: boom"},
		"an indexer of the connection": {func(w *ward, p registry.Remote) error {
			return p.Cluster.GetFieldIndexer().IndexField(w.t.Context(), &corev1.ConfigMap{}, "data",
				func(client.Object) []string { boom(w, p); return nil })
		}, "index data: panic: boom"},
		"an index function that fails": {func(w *ward, p registry.Remote) error {
			informer, err := p.Cache.GetInformer(w.t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
			if err != nil {
				return err
			}
			return informer.AddIndexers(toolscache.Indexers{"data": func(any) ([]string, error) {
				if w.isIll(p) {
					return nil, errors.New("boom")
				}
				return nil, nil
			}})
		}, "index data: boom"},
		"a handler that ends its goroutine": {func(w *ward, p registry.Remote) error {
			return watching(p, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
				if w.isIll(p) {
					runtime.Goexit()
				}
				return nil
			}))
		}, "runtime.Goexit"},
		"a collector": {func(w *ward, p registry.Remote) error {
			return p.Metrics.Register(collector{func() { boom(w, p) }})
		}, "metrics collector: panic: boom"},
		"a runnable": {func(w *ward, p registry.Remote) error {
			return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
				seen, err := p.Cache.GetInformer(ctx, &corev1.ConfigMap{})
				if err != nil {
					return err
				}
				news := make(chan struct{}, 1)
				_, err = seen.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
					select {
					case news <- struct{}{}:
					default:
					}
				}})
				for err == nil {
					select {
					case <-news:
						boom(w, p)
					case <-ctx.Done():
						return nil
					}
				}
				return err
			}))
		}, "panic: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWard(t, c.setUp, nil)
			w.ill.Store(true)
			newConfigMap(t, w.sick) // an event; later apps list the object when they start
			if strings.Contains(name, "collector") {
				defer w.scrape(t)()
			}
			w.expectIllness(t, state.ReasonModuleFailed, c.says)
			w.expectModuleFailed(t, state.ReasonModuleFailed)
			if strings.Contains(c.says, "panic") && w.panics(t, "broken") < 2 {
				t.Errorf("got %v counted panics, want one for each app that ended", w.panics(t, "broken"))
			}
			w.ill.Store(false)
			expectState(t, w.Registry, sick, state.StateReady, state.ReasonReady)
			w.beside.check(t, noticedBusy)
			expectSeenBy(t, w.sick, newConfigMap(t, w.sick), sick)
		})
	}
}

// A panic in hub code that watches a remote ends no app.
func TestContain_CodeOfTheHub(t *testing.T) {
	t.Parallel()
	w := newWard(t, func(*ward, registry.Remote) error { return nil }, nil)
	before, _ := w.Status(sick)
	err := w.WithCluster(t.Context(), sick, func(ctx context.Context, remote cluster.Cluster) error {
		informer, err := remote.GetCache().GetInformer(ctx, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("boom") }})
		return errors.Join(err, remote.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, "data",
			func(client.Object) []string { panic("boom") }))
	})
	must(t, err)
	expectSeenBy(t, w.sick, newConfigMap(t, w.sick), sick)
	testkit.Until(t, "the panics are counted", func() bool { return w.panics(t, "") >= 2 })
	if after, _ := w.Status(sick); after.Epoch != before.Epoch || after.State != state.StateReady {
		t.Errorf("the remote is %s with epoch %d, want Ready with epoch %d", after.State, after.Epoch, before.Epoch)
	}
	must(t, w.Stop(t.Context(), sick))
	if got := w.panics(t, ""); got != 0 {
		t.Errorf("got %v counted panics of a stopped remote, want 0", got)
	}
}
