// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/clusterfx/clusterfx/registry"
)

const (
	team  = "team"                               // the label of Namespaces
	name  = "clusterfx-quota"                    // of the ResourceQuotas, and of the ConfigMap in the hub
	owner = client.FieldOwner("clusterfx-quota") // of every field that is written
	ours  = "quota.example.com/managed"          // the label of the ResourceQuotas
)

// Enforce adds the reconciler to a remote's app. In there, Manager and Client are the remote's.
func Enforce(p registry.Remote, config Config) error {
	e := &enforcer{remote: p.Client, pods: config.Pods}
	return ctrl.NewControllerManagedBy(p.Manager).
		Named("quota").
		For(&corev1.Namespace{}).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(itsNamespace)).
		Complete(registry.Supervise(p.Manager, e))
}

// itsNamespace returns the request for the Namespace that a ResourceQuota is in.
func itsNamespace(_ context.Context, quota client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: quota.GetNamespace()}}}
}

// enforcer works on the Namespaces of one remote.
type enforcer struct {
	remote client.Client
	pods   int64
}

// Reconcile gives a Namespace its ResourceQuota.
func (e *enforcer) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var namespace corev1.Namespace
	if err := e.remote.Get(ctx, r.NamespacedName, &namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if namespace.Labels[team] == "" || !namespace.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	quota := corev1ac.ResourceQuota(name, namespace.Name).
		WithLabels(map[string]string{ours: "true"}).
		WithSpec(corev1ac.ResourceQuotaSpec().WithHard(corev1.ResourceList{
			corev1.ResourcePods: *resource.NewQuantity(e.pods, resource.DecimalSI),
		}))
	if err := e.remote.Apply(ctx, quota, owner, client.ForceOwnership); err != nil {
		return ctrl.Result{}, fmt.Errorf("apply the quota of %s: %w", namespace.Name, err)
	}
	return ctrl.Result{}, nil
}
