// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/clusterfx/clusterfx/registry"
)

const (
	team    = "team"                               // the label of Namespaces
	name    = "clusterfx-quota"                    // of the ResourceQuotas, and of the ConfigMap in the hub
	owner   = client.FieldOwner("clusterfx-quota") // of the fields of the ConfigMap
	managed = "quota.example.com/managed"          // the label of the ResourceQuotas
)

// Enforce adds the reconciler to a remote's app. In there, Manager and Client are the remote's.
func Enforce(p registry.Remote, config Config) error {
	e := &enforcer{remote: p.Client, pods: config.Pods}
	return registry.ControllerManagedBy(p.Manager).
		Named("quota").
		For(&corev1.Namespace{}).
		Watches(&corev1.ResourceQuota{}, handler.EnqueueRequestsFromMapFunc(itsNamespace)).
		Complete(e)
}

func itsNamespace(_ context.Context, quota client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: quota.GetNamespace()}}}
}

// enforcer works on the Namespaces of one remote.
type enforcer struct {
	remote client.Client
	pods   int64
}

// Reconcile gives a Namespace its ResourceQuota. The cache has only those with the label managed, see CacheFilters in
// Module: any other of that name makes CreateOrUpdate fail, and stays.
func (e *enforcer) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var namespace corev1.Namespace
	if err := e.remote.Get(ctx, r.NamespacedName, &namespace); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if namespace.Labels[team] == "" || !namespace.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name}}
	_, err := controllerutil.CreateOrUpdate(ctx, e.remote, quota, func() error {
		metav1.SetMetaDataLabel(&quota.ObjectMeta, managed, "true")
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(e.pods, resource.DecimalSI)}
		return nil
	})
	if apierrors.IsAlreadyExists(err) {
		err = fmt.Errorf("if the ResourceQuota does not have the label %s, delete it or rename it: %w", managed, err)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("write the ResourceQuota %s in %s: %w", name, namespace.Name, err)
	}
	return ctrl.Result{}, nil
}
