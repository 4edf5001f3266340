// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
)

// configMaps reconciles the ConfigMaps of all remotes. It knows nothing of clusterfx.
type configMaps struct{ clusters mcmanager.Manager }

// Reconcile looks at one ConfigMap.
func (c *configMaps) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	remote, err := c.clusters.GetCluster(ctx, request.ClusterName)
	if err != nil {
		return ctrl.Result{}, err // which drops the request if the remote is away
	}
	var one corev1.ConfigMap
	return ctrl.Result{}, client.IgnoreNotFound(remote.GetClient().Get(ctx, request.NamespacedName, &one))
}

// A hub runs a controller that was written with multicluster-runtime.
func Example() {
	setUp := func(mgr mcmanager.Manager) error {
		return mcbuilder.ControllerManagedBy(mgr).
			Named("configmaps").
			For(&corev1.ConfigMap{}).
			WithOptions(mccontroller.Options{
				NewQueue:                multiclusterruntime.NewQueue(nil), // remotes in turn
				MaxConcurrentReconciles: 8,
			}).
			Complete(&configMaps{mgr})
	}
	configmaps := registry.NewModule("configmaps", registry.ModuleOptions{Hub: fx.Invoke(setUp)})
	_ = []registry.Module{multiclusterruntime.Module, configmaps} // app.Main(...)
}
