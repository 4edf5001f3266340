// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime_test

import (
	"context"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/modules/multiclusterruntime"
	"github.com/clusterfx/clusterfx/registry"
)

// configMaps writes the name of the remote into the ConfigMaps that request it. The reconciler needs no package of
// clusterfx.
type configMaps struct{ clusters mcmanager.Manager }

// clusterKey is the key of the name of the remote.
const clusterKey = "cluster"

// Reconcile writes the name into one ConfigMap.
func (c *configMaps) Reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	remote, err := c.clusters.GetCluster(ctx, request.ClusterName)
	if err != nil {
		return ctrl.Result{}, err // The builder's controllers drop the request if the remote is not engaged.
	}
	var one corev1.ConfigMap
	if err := remote.GetClient().Get(ctx, request.NamespacedName, &one); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name := string(request.ClusterName)
	if was, asks := one.Data[clusterKey]; !asks || was == name {
		return ctrl.Result{}, nil
	}
	changed := one.DeepCopy()
	changed.Data[clusterKey] = name
	return ctrl.Result{}, remote.GetClient().Patch(ctx, changed, client.MergeFrom(&one))
}

// setUp adds the controller to the manager. It runs in every term of the hub, and when the hub part starts again.
func setUp(mgr mcmanager.Manager) error {
	return mcbuilder.ControllerManagedBy(mgr).
		Named("configmaps").
		For(&corev1.ConfigMap{}).
		WithOptions(multiclusterruntime.ControllerOptions(mgr, mccontroller.Options{MaxConcurrentReconciles: 8})).
		Complete(&configMaps{mgr})
}

// rules are the permissions that the controller needs in remotes.
func rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch", "patch"}}}
}

// newExample returns the modules of a hub that runs a controller written with multicluster-runtime.
func newExample() []registry.Module {
	return []registry.Module{
		multiclusterruntime.Module,
		registry.NewModule("configmaps", registry.ModuleOptions{
			Hub: fx.Invoke(setUp), HubRuns: registry.WithRemotes, Rules: rules(),
		}),
	}
}

// A hub runs a controller written with multicluster-runtime. Its main is os.Exit(app.Main(newExample()...)).
// TestExample runs it.
func Example() {
	_ = newExample()
}
