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
	"github.com/clusterfx/clusterfx/registry/watch"
)

// The start of an app logs the controllers that are not supervised.
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
	var log logLines
	r := newRegistry(t, func(o *registry.Options) {
		o.Log, o.Modules = log.log(), []registry.Module{mixed, supervised}
	})
	spawn(t, r, "a", configFor(t, fleettest.Cluster(t, "one").Kubeconfig()))
	lines := log.with("A controller is not supervised")
	if len(lines) != 2 || !strings.Contains(lines[0], `"module"="mixed" "controller"="forgotten"`) || !strings.Contains(lines[1], `"controller"="overlooked"`) {
		t.Errorf("got log %q, want a line for each of the controllers forgotten and overlooked of the module mixed", lines)
	}
}

// Each method of the builder does the same as that method of controller-runtime's builder, and the controller is supervised.
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
	var log logLines
	r := newRegistry(t, func(o *registry.Options) {
		o.Log = log.log()
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
	if seen["kube-system"] || !logged || len(log.with("A controller is not supervised")) > 0 {
		t.Errorf("got request for kube-system: %t, want false; log constructor called: %t, want true; got log %q, want 0 lines", seen["kube-system"], logged, log.lines)
	}
}
