// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// fault is a module that fails in some way until it is fixed.
type fault struct {
	mended atomic.Bool
	tries  atomic.Int64
}

func (f *fault) broken() bool {
	f.tries.Add(1)
	return !f.mended.Load()
}

// Promise: a module that fails or panics ends the app of that remote only.
func TestRegistry_ModuleFailures(t *testing.T) {
	t.Parallel()
	failing := func(f *fault) error {
		if f.broken() {
			return errors.New("boom")
		}
		return nil
	}
	panicking := func(f *fault) {
		if f.broken() {
			panic("boom")
		}
	}
	type product struct{}
	for name, c := range map[string]struct {
		option func(*fault) fx.Option
		reason string
	}{
		"an invoke panics": {func(f *fault) fx.Option { return fx.Invoke(func() { panicking(f) }) }, state.ReasonBuildFailed},
		"a hook panics": {func(f *fault) fx.Option {
			return fx.Invoke(func(lc fx.Lifecycle) { lc.Append(fx.StartHook(func() { panicking(f) })) })
		}, state.ReasonStartFailed},
		"a runnable fails": {func(f *fault) fx.Option {
			return fx.Invoke(func(mgr ctrl.Manager) error {
				return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
					if err := failing(f); err != nil {
						return err
					}
					<-ctx.Done()
					return nil
				}))
			})
		}, state.ReasonModuleFailed},
		"a constructor fails": {func(f *fault) fx.Option {
			return fx.Options(
				fx.Provide(func() (*product, error) { return &product{}, failing(f) }), fx.Invoke(func(*product) {}))
		}, state.ReasonBuildFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f fault
			broken := registry.NewModule("broken", registry.ModuleOptions{Remote: c.option(&f)})
			r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{broken} })
			_, config := remote(t, "one")
			must(t, r.Ensure("one", config))
			eventually(t, func() error {
				info, _ := r.Status("one")
				if info.App.Reason != c.reason {
					return &stateError{want: state.StateFailed, reason: c.reason, got: info}
				}
				if !strings.Contains(info.App.Message, `"broken"`) || !strings.Contains(info.App.Message, "boom") {
					return errors.New("the message names neither module nor error: " + info.App.Message)
				}
				return nil
			})
			f.mended.Store(true)
			info := expectState(t, r, "one", state.StateReady, state.ReasonReady)
			eventually(t, func() error { // A runnable may begin when the app is Ready.
				if f.tries.Load() < 2 || info.Epoch < 2 {
					return fmt.Errorf("got %d tries and epoch %d, want a second try", f.tries.Load(), info.Epoch)
				}
				return nil
			})
		})
	}
}

// A hook that ignores its context is abandoned at the deadline and does not delay the next start.
func TestRegistry_HangingHooks(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var starts, late atomic.Int64
	hanging := registry.NewModule("hanging", registry.ModuleOptions{
		Remote: fx.Invoke(func(lc fx.Lifecycle) {
			lc.Append(fx.Hook{
				OnStart: func(context.Context) error {
					if starts.Add(1) == 1 {
						<-release
					}
					return nil
				},
				OnStop: func(context.Context) error { late.Add(1); return nil },
			})
		}),
	})
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{hanging}
		o.Limits = registry.Limits{StartTimeout: 4 * time.Second, StopTimeout: 500 * time.Millisecond}
	})
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	if info, _ := r.Status("one"); info.Epoch != 2 {
		t.Errorf("got epoch %d, want 2, because the first start hangs", info.Epoch)
	}
	close(release) // A hook that completes after its deadline is stopped.
	testkit.Until(t, "the late hook is stopped", func() bool { return late.Load() != 0 })
}

// A constructor that does not return is named, and does not delay the next try.
func TestRegistry_HangingConstructor(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var tries atomic.Int64
	hanging := registry.NewModule("hanging", registry.ModuleOptions{
		Remote: fx.Invoke(func() {
			if tries.Add(1) == 1 {
				<-release
			}
		}),
	})
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{hanging}
		o.Limits = registry.Limits{StartTimeout: 4 * time.Second, StopTimeout: 300 * time.Millisecond}
	})
	_, config := remote(t, "one")
	must(t, r.Ensure("one", config))
	eventually(t, func() error {
		info, _ := r.Status("one")
		if info.App.Reason != state.ReasonBuildFailed || !strings.Contains(info.App.Message, "hanging") {
			return &stateError{want: state.StateFailed, reason: state.ReasonBuildFailed, got: info}
		}
		return nil
	})
	expectState(t, r, "one", state.StateReady, state.ReasonReady)
	close(release)
}

// An app that never ends is abandoned as a zombie that cannot write to the remote, and its remote can be stopped and started again.
func TestRegistry_Zombie(t *testing.T) {
	t.Parallel()
	works, release := make(chan struct{}), make(chan struct{})
	metrics := prometheus.NewRegistry()
	var first atomic.Bool
	writes := make(chan error, 1)
	stuck := registry.NewModule("stuck", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) error {
			if !first.CompareAndSwap(false, true) {
				return nil
			}
			return p.Manager.Add(manager.RunnableFunc(func(context.Context) error {
				close(works)
				<-release
				writes <- p.Client.Create(context.WithoutCancel(t.Context()), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "zombie-", Namespace: "default"},
				})
				return nil
			}))
		}),
	})
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{stuck}
		o.Limits, o.Metrics = registry.Limits{StopTimeout: 300 * time.Millisecond}, metrics
	})
	_, config := remote(t, "one")
	spawn(t, r, "one", config)
	<-works
	must(t, r.Stop(t.Context(), "one"))
	counted := func() float64 {
		return metric(t, metrics, "clusterfx_app_zombies", map[string]string{"cluster": "one"})
	}
	if got := r.Zombies(); got != 1 || counted() != 1 {
		t.Errorf("got %d zombies, and %v in the metrics, want 1", got, counted())
	}
	spawn(t, r, "one", config)
	close(release)
	testkit.ErrorIs(t, <-writes, registry.ErrStopped, "write of the zombie")
	testkit.Until(t, "the zombie is counted no longer", func() bool { return r.Zombies() == 0 && counted() == 0 })
}

// A module whose API is missing reports this, and the other modules keep working.
func TestRegistry_MissingAPI(t *testing.T) {
	t.Parallel()
	var c counter
	widgets := registry.NewModule("widgets", registry.ModuleOptions{
		Remote: fx.Invoke(func(mgr ctrl.Manager) error {
			widget := &unstructured.Unstructured{}
			widget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
			return ctrl.NewControllerManagedBy(mgr).For(widget).Named("widgets").Complete(reconcile.Func(
				func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
		}),
	})
	r := newRegistry(t, func(o *registry.Options) { o.Modules = []registry.Module{c.module(), widgets} })
	one, config := remote(t, "one")
	must(t, r.Ensure("no-widgets", config))
	info := expectState(t, r, "no-widgets", state.StateStarting, state.ReasonWaiting)
	if !strings.Contains(info.Message, "Widget") {
		t.Errorf("got message %q, want it to name the kind", info.Message)
	}
	expectSeenBy(t, one, newConfigMap(t, one), "no-widgets")
}

// Gadget is the Go type of a kind whose definition allows more.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Size              int64 `json:"size"`
}

// DeepCopyObject implements runtime.Object.
func (g *Gadget) DeepCopyObject() runtime.Object { one := *g; return &one }

// GadgetList is a list of Gadgets.
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Gadget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (g *GadgetList) DeepCopyObject() runtime.Object { all := *g; return &all }

// An object that the Go type of its kind cannot hold is named by kind, field and types, without its value, and the other kinds of the
// module go on.
func TestRegistry_Misfit(t *testing.T) {
	t.Parallel()
	var c counter
	kind := schema.GroupVersionKind{Group: "misfit.example.com", Version: "v1", Kind: "Gadget"}
	both := registry.NewModule("both", registry.ModuleOptions{Remote: fx.Invoke(c.setUp, func(mgr ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).For(&Gadget{}).Named("gadgets").Complete(reconcile.Func(
			func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }))
	})})
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules = []registry.Module{both}
		o.Scheme = fleettest.Scheme(t, func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(kind, &Gadget{})
			s.AddKnownTypeWithName(kind.GroupVersion().WithKind("GadgetList"), &GadgetList{})
			metav1.AddToGroupVersion(s, kind.GroupVersion())
			return nil
		})
	})
	one, config := remote(t, "one")
	direct := clientFor(t, one)
	must(t, direct.Create(t.Context(), fleettest.CRD(t, kind, "")))
	misfit := &unstructured.Unstructured{Object: map[string]any{"size": "SPOKEN"}}
	misfit.SetGroupVersionKind(kind)
	misfit.SetNamespace("default")
	misfit.SetName("misfit")
	eventually(t, func() error { return direct.Create(t.Context(), misfit) })
	must(t, r.Ensure("misfit", config))
	info := expectState(t, r, "misfit", state.StateStarting, state.ReasonWaiting)
	for _, text := range []string{"Gadget", "the field size has a JSON string, which the Go type int64 cannot hold"} {
		if !strings.Contains(info.Message, text) || strings.Contains(info.Message, "SPOKEN") {
			t.Errorf("got message %q, want it to say: %s", info.Message, text)
		}
	}
	expectSeenBy(t, one, newConfigMap(t, one), "misfit")
}

// An app provides every field that Remote lists, and the next epoch can register the same collectors again.
func TestRegistry_ProvidesWhatRemoteLists(t *testing.T) {
	t.Parallel()
	got := make(chan registry.Remote, 2)
	greedy := registry.NewModule("greedy", registry.ModuleOptions{
		Remote: fx.Invoke(func(p registry.Remote) error {
			got <- p
			return p.Metrics.Register(prometheus.NewCounter(prometheus.CounterOpts{Name: "greedy_total"}))
		}),
	})
	metrics := prometheus.NewRegistry()
	hub := fleettest.Cluster(t, "hub")
	r := newRegistry(t, func(o *registry.Options) {
		o.Modules, o.Metrics, o.HubCache = []registry.Module{greedy}, metrics, clientFor(t, hub)
	})
	_, config := remote(t, "one")
	for range 2 {
		spawn(t, r, "one", config)
		p := <-got
		for what, there := range map[string]bool{
			"cluster": p.Name == "one", "info": p.Status.Version != "", "manager": p.Manager != nil, "client": p.Client != nil,
			"reader": p.APIReader != nil, "connection": p.Cluster != nil, "cache": p.Cache != nil, "config": p.Config != nil,
			"scheme": p.Scheme != nil, "mapper": p.RESTMapper != nil, "events": p.EventRecorder != nil, "quote": p.Quote != nil, "hub": p.HubClient != nil, "hub cache": p.HubCache != nil,
			"hub objects": p.HubObjects != nil,
		} {
			if !there {
				t.Errorf("%s is missing", what)
			}
		}
		var ns corev1.NamespaceList
		if err := p.HubClient.List(t.Context(), &ns); err != nil || len(ns.Items) == 0 {
			t.Errorf("list in the hub: got %v and %d items, want items", err, len(ns.Items))
		}
		if found := seriesOf(t, metrics, "cluster", "one"); found["greedy_total"] != 1 {
			t.Errorf("got metrics %v, want greedy_total with the label cluster", found)
		}
		must(t, r.Stop(t.Context(), "one"))
		testkit.ErrorIs(t, p.HubClient.List(t.Context(), &ns), registry.ErrStopped, "list in the hub after the stop")
	}
	if found := seriesOf(t, metrics, "cluster", "one"); len(found) != 0 {
		t.Errorf("got metrics %v after the stop, want 0", found)
	}
}
