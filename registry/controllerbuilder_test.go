// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// lineLog keeps the log lines that contain a text.
type lineLog struct {
	text string

	mu    sync.Mutex // protects lines
	lines []string
}

func (l *lineLog) logger() logr.Logger {
	return funcr.New(func(prefix, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if strings.Contains(line, l.text) {
			l.lines = append(l.lines, prefix+" "+line)
		}
	}, funcr.Options{})
}

func (l *lineLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// The start of an app logs the controllers that are not supervised, in one line for each module.
func TestControllerManagedBy_OthersAreLogged(t *testing.T) {
	t.Parallel()
	plain := func(p registry.Remote, name string, object client.Object) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named(name).For(object).Complete(idle())
	}
	mixed := registry.NewModule("mixed", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return errors.Join(
			plain(p, "forgotten", &corev1.ConfigMap{}),
			registry.ControllerManagedBy(p.Manager).Named("built").For(&corev1.ConfigMap{}).Complete(idle()),
			ctrl.NewControllerManagedBy(p.Manager).Named("wrapped").For(&corev1.ConfigMap{}).Complete(registry.Supervise(p.Manager, idle())),
			plain(p, "overlooked", &corev1.Namespace{}),
		)
	})})
	supervised := registry.NewModule("supervised", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return registry.ControllerManagedBy(p.Manager).For(&corev1.ConfigMap{}).Complete(idle())
	})})
	log := lineLog{text: "Controllers are not supervised"}
	r := newRegistry(t, func(o *registry.Options) {
		o.Log, o.Modules = log.logger(), []registry.Module{mixed, supervised}
	})
	spawn(t, r, "a", configFor(t, fleettest.Cluster(t, "one").Kubeconfig()))
	lines := log.all()
	if len(lines) != 1 || !strings.Contains(lines[0], `"module"="mixed" "controllers"=["forgotten" "overlooked"]`) {
		t.Errorf("got log %q, want one line with the module mixed and its controllers forgotten and overlooked", lines)
	}
}

// Each method of the builder does the same as that method of controller-runtime's builder, and the controller is
// supervised.
func TestControllerManagedBy_Methods(t *testing.T) {
	t.Parallel()
	request := func(name string) ctrl.Request {
		return ctrl.Request{NamespacedName: client.ObjectKey{Name: name}}
	}
	mapTo := func(name string) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{request(name)} })
	}
	var mu sync.Mutex
	seen, logged := map[string]bool{}, false
	setUp := func(p registry.Remote) error {
		return registry.ControllerManagedBy(p.Manager).
			WithOptions(controller.Options{MaxConcurrentReconciles: 2}).
			For(&corev1.Namespace{}).
			Owns(&corev1.ConfigMap{}).
			Watches(&rbacv1.ClusterRole{}, mapTo("watched")).
			WatchesMetadata(&corev1.Service{}, mapTo("watched as metadata")).
			WatchesRawSource(watch.InitialRequest(request("of a source"))).
			WithEventFilter(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() != "kube-system" })).
			WithLogConstructor(func(*ctrl.Request) logr.Logger {
				mu.Lock()
				defer mu.Unlock()
				logged = true
				return p.Logger
			}).
			Named("all").
			Complete(reconcile.Func(func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				seen[r.Name] = true
				return ctrl.Result{}, nil
			}))
	}
	log := lineLog{text: "Controllers are not supervised"}
	r := newRegistry(t, func(o *registry.Options) {
		o.Log = log.logger()
		o.Modules = []registry.Module{registry.NewModule("all", registry.ModuleOptions{Remote: fx.Invoke(setUp)})}
	})
	spawn(t, r, "a", configFor(t, fleettest.Cluster(t, "one").Kubeconfig()))
	eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range []string{"default", "watched", "watched as metadata", "of a source"} {
			if !seen[name] {
				return fmt.Errorf("no request %s in %v", name, seen)
			}
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	if seen["kube-system"] || !logged || len(log.all()) > 0 {
		t.Errorf("got request for kube-system: %t, want false; log constructor called: %t, want true; got log %q, want 0 lines", seen["kube-system"], logged, log.all())
	}
}

// A controller with another type of requests is supervised, too.
func TestTypedControllerManagedBy(t *testing.T) {
	t.Parallel()
	w := newWard(t, func(w *ward, p registry.Remote) error {
		return registry.TypedControllerManagedBy[string](p.Manager).Named("broken").
			Watches(&corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []string {
				return []string{o.GetName()}
			})).
			Complete(reconcile.TypedFunc[string](func(context.Context, string) (ctrl.Result, error) {
				if w.isIll(p) {
					panic("boom")
				}
				return ctrl.Result{}, nil
			}))
	}, nil)
	stop := w.observe(t)
	w.ill.Store(true)
	for range 3 {
		newConfigMap(t, w.sick)
	}
	w.expectIllness(t, state.ReasonModuleFailed, "does nothing but panic", "panic: boom")
	w.ill.Store(false)
	expectState(t, w.Registry, sick, state.StateReady, state.ReasonReady)
	stop()
}
