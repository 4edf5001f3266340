// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// A panic of a function of Options, and a reconciler that only panics, end only their own hub part.
func TestRemotes_PanicsEndTheHubPart(t *testing.T) {
	t.Parallel()
	faulty := map[string]watch.Options[client.Object]{
		"select": {Select: func(state.Status) bool { panic("boom") }},
		"predicate": {Predicates: []predicate.TypedPredicate[client.Object]{
			predicate.NewTypedPredicateFuncs(func(client.Object) bool { panic("boom") }),
		}},
		"map":   {Map: func(context.Context, state.ClusterName, client.Object) []watch.Request { panic("boom") }},
		"index": {Indexes: []watch.Index{{Field: "x", Extract: func(client.Object) []string { panic("boom") }}}},
	}
	watching := func(o watch.Options[client.Object], r reconcile.TypedReconciler[watch.Request]) fx.Option {
		return fx.Invoke(func(m ctrl.Manager, remotes *registry.Registry) error {
			return watch.ControllerManagedBy(m, remotes).Named("test").WatchesRemote(&corev1.Namespace{}, o).Complete(r)
		})
	}
	var well record
	modules := []fx.Option{
		registry.NewModule("well", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: watching(watch.Options[client.Object]{}, &well)}).Option(),
	}
	for name, o := range faulty {
		modules = append(modules, registry.NewModule(name, registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: watching(o, &record{})}).Option())
	}
	faulty["reconciler"] = watch.Options[client.Object]{}
	modules = append(modules, registry.NewModule("reconciler", registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: watching(faulty["reconciler"],
		reconcile.TypedFunc[watch.Request](func(context.Context, watch.Request) (ctrl.Result, error) { panic("boom") }))}).Option())
	remotes := runHub(t, modules...)
	must(t, remotes.Ensure("one", configFor(t, fleettest.Cluster(t, "one").Kubeconfig())))
	eventually(t, func() error {
		for _, one := range remotes.HubParts() {
			if _, fails := faulty[one.Module]; fails && (one.Restarts == 0 || !strings.Contains(one.Message, "boom")) {
				return fmt.Errorf("got %+v, want a restart and the panic", one)
			}
		}
		return nil
	})
	well.expect(t, watch.Request{Cluster: "one", NamespacedName: client.ObjectKey{Name: "default"}}, 0)
	for _, one := range remotes.HubParts() {
		if one.Module == "well" && (one.State != state.ModuleRunning || one.Restarts > 0) {
			t.Errorf("the other hub part: got %+v, want Running with 0 restarts", one)
		}
	}
	if info, _ := remotes.Status("one"); info.Restarts > 0 {
		t.Errorf("got remote %+v, want 0 restarts", info)
	}
}

func runHub(t *testing.T, modules ...fx.Option) (remotes *registry.Registry) {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(fleettest.Cluster(t, "hub").Config(), ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	must(t, err)
	app := fx.New(fx.NopLogger, registry.FX, fx.Options(modules...), fx.Populate(&remotes),
		fx.Supply(logr.Discard(), registry.Options{Policy: policy(), AllowDuplicates: true}),
		fx.Provide(func() ctrl.Manager { return mgr }),
	)
	must(t, app.Err())
	testkit.Background(t, mgr.Start)
	return remotes
}
