// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// baseline copies ConfigMaps with controller-runtime alone: no marks, no checks of owners, no collisions, no evidence for
// deletes. It is what the benchmarks compare a pair with.
type baseline struct {
	up, down      client.Client
	downNamespace string
	finalizer     bool
}

const baselineFinalizer = "example.com/baseline"

func (r *baseline) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var up corev1.ConfigMap
	if err := r.up.Get(ctx, req.NamespacedName, &up); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.finalizer && len(up.Finalizers) == 0 {
		before := up.DeepCopy()
		up.Finalizers = []string{baselineFinalizer}
		if err := r.up.Patch(ctx, &up, client.MergeFrom(before)); err != nil {
			return ctrl.Result{}, err
		}
	}
	name := up.Name + "-x-" + up.Namespace
	var down corev1.ConfigMap
	err := r.down.Get(ctx, client.ObjectKey{Namespace: r.downNamespace, Name: name}, &down)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err == nil && maps.Equal(up.Data, down.Data) {
		return ctrl.Result{}, nil
	}
	wanted := corev1ac.ConfigMap(name, r.downNamespace).WithData(up.Data).
		WithAnnotations(map[string]string{"example.com/name": up.Name, "example.com/namespace": up.Namespace})
	return ctrl.Result{}, r.down.Apply(ctx, wanted, client.FieldOwner("baseline"), client.ForceOwnership)
}

func addBaseline(mgr ctrl.Manager, down cluster.Cluster, b *bench, finalizer bool) error {
	yes := true
	r := &baseline{up: mgr.GetClient(), down: down.GetClient(), downNamespace: b.downNS, finalizer: finalizer}
	back := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj *corev1.ConfigMap) []reconcile.Request {
		name := obj.Annotations["example.com/name"]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: obj.Annotations["example.com/namespace"], Name: name}}}
	})
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		WatchesRawSource(source.Kind(down.GetCache(), &corev1.ConfigMap{}, back)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10, SkipNameValidation: &yes}).Complete(r)
}
