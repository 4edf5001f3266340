// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// Count watches the ResourceQuotas in all remotes. In the hub's App, unnamed dependencies belong to the hub, and the
// registry leads to the remotes.
func Count(hub ctrl.Manager, remotes *registry.Registry) error {
	return watch.ControllerManagedBy(hub, remotes).
		Named("quota-count").
		WatchesRemote(&corev1.ResourceQuota{}, watch.Options[client.Object]{Map: oneForAll}).
		Complete(&accountant{hub: hub.GetClient(), remotes: remotes})
}

// oneForAll maps every object of a remote to the same request, because they are counted together.
func oneForAll(_ context.Context, cluster registry.ClusterName, _ client.Object) []watch.Request {
	return []watch.Request{{Cluster: cluster, NamespacedName: types.NamespacedName{Name: name}}}
}

// accountant counts the ResourceQuotas of remotes.
type accountant struct {
	hub     client.Client
	remotes *registry.Registry
}

// Reconcile counts for one remote. WithClient lends its app's client, which reads from a cache and never waits.
func (a *accountant) Reconcile(ctx context.Context, r watch.Request) (ctrl.Result, error) {
	var all corev1.ResourceQuotaList
	err := a.remotes.WithClient(ctx, r.Cluster, func(ctx context.Context, remote client.Client) error {
		return remote.List(ctx, &all, client.MatchingLabels{managed: "true"})
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("count the quotas of %s: %w", r.Cluster, err)
	}
	report := corev1ac.ConfigMap(name+"-"+string(r.Cluster), metav1.NamespaceDefault).
		WithData(map[string]string{"count": strconv.Itoa(len(all.Items))})
	return ctrl.Result{}, a.hub.Apply(ctx, report, owner, client.ForceOwnership)
}
