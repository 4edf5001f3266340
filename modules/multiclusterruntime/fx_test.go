// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
)

// Two modules of a hub share the manager of Module, and their controllers run in the hub's manager.
func TestModule(t *testing.T) {
	t.Parallel()
	c := fleettest.Cluster(t, "one")
	var first, second record
	user := func(name string, r *record) registry.Module {
		return registry.NewModule(name, registry.ModuleOptions{HubRuns: registry.WithRemotes, Hub: fx.Invoke(func(mgr mcmanager.Manager) error {
			fair := options()
			fair.NewQueue = multiclusterruntime.NewQueue(nil)
			return newController(&hub{Manager: mgr}, name).For(&corev1.ConfigMap{}).WithEventFilter(ofTest(t)).
				WithOptions(fair).Complete(r)
		})})
	}
	mgr := newManager(t)
	var remotes *registry.Registry
	app := fx.New(
		fx.NopLogger, registry.FX, multiclusterruntime.Module.Option(), user("first", &first).Option(), user("second", &second).Option(),
		fx.Supply(logr.Discard(), registry.Options{Policy: policy(), AllowDuplicates: true}),
		fx.Provide(func() ctrl.Manager { return mgr }), fx.Populate(&remotes),
	)
	testkit.Must(t, app.Err())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		testkit.NoError(t, <-ended, "hub ended with an error")
	})
	testkit.Must(t, remotes.Ensure("one", configFor(t, c.Kubeconfig())))
	key := create(t, c)
	first.expect(t, in("one", key), 0)
	second.expect(t, in("one", key), 0)
}
