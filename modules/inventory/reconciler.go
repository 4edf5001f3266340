// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// FieldManager owns status.inventory.
const FieldManager = "clusterfx-inventory"

// Interval is the least time between two writes for one remote.
const Interval = 10 * time.Second

// Setup adds the reconciler to the app's manager.
func Setup(p Params) error {
	r := &reconciler{cluster: client.ObjectKey{Name: string(p.Name)}, remote: p.Client, hub: p.HubClient}
	return registry.ControllerManagedBy(p.Manager).
		Named("inventory").
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.request), builder.WithPredicates(relevant())).
		WatchesRawSource(watch.InitialRequest(ctrl.Request{NamespacedName: r.cluster})).
		Complete(r)
}

type reconciler struct {
	cluster client.ObjectKey
	remote  client.Reader
	hub     client.Client
	written time.Time // when the inventory was last written; there is one request, so one at a time
}

func (r *reconciler) request(context.Context, client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: r.cluster}}
}

func (r *reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	if wait := Interval - time.Since(r.written); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	var nodes corev1.NodeList
	if err := r.remote.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list the nodes: %w", err)
	}
	var cluster hubv1.Cluster
	if err := r.hub.Get(ctx, r.cluster, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(fmt.Errorf("read the Cluster: %w", err))
	}
	counted := count(nodes.Items)
	if counted.isReported(cluster.Status.Inventory) {
		return ctrl.Result{}, nil
	}
	if err := r.write(ctx, counted); err != nil {
		return ctrl.Result{}, err
	}
	r.written = time.Now()
	return ctrl.Result{}, nil
}

func (r *reconciler) write(ctx context.Context, counted inventory) error {
	before := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.cluster.Name}}
	after := before.DeepCopy()
	after.Status.Inventory = counted.status()
	err := r.hub.Status().Patch(ctx, after, client.MergeFrom(before), client.FieldOwner(FieldManager),
		client.FieldValidation(metav1.FieldValidationIgnore)) // The CRD may be older than the hub.
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the inventory: %w", err)
	}
	return nil
}
