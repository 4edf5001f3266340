// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/eventseries"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Settings configure the controller.
type Settings struct {
	Namespace string // Namespace has the credentials. Default clusterfx-system.
}

// Rules are needed in the credentials namespace, besides those of package cluster.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"patch"}}}
}

// Backoff, and how many tokens are renewed at once.
const (
	retryBase = time.Second
	retryMax  = 5 * time.Minute
	atOnce    = 16
)

// Setup adds the controller to the hub's manager. It sends no requests.
func Setup(p Params) error {
	r := &reconciler{
		hub: p.Manager.GetClient(), cache: p.Manager.GetCache(), live: p.Manager.GetAPIReader(), remotes: p.Registry,
		events:    eventseries.ByNote(p.Manager.GetEventRecorder(FieldManager), p.Manager.GetScheme()),
		namespace: cmp.Or(p.Settings.Namespace, hubv1.DefaultNamespace),
	}
	options := hubcontroller.Options(atOnce, liveness.Queue[ctrl.Request](p.Monitor, liveness.Subject{Controller: "renewal"}))
	options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](retryBase, retryMax)
	err := ctrl.NewControllerManagedBy(p.Manager).
		Named("renewal").
		For(&corev1.Secret{}, builder.OnlyMetadata, builder.WithPredicates(predicate.NewPredicateFuncs(isRenewed))).
		Watches(&hubv1.Cluster{}, r.clusterChanged()).
		WatchesRawSource(registry.Source(p.Registry, r.secretOf)).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the renewal controller: %w", err)
	}
	return nil
}

func isRenewed(secret client.Object) bool {
	return secret.GetAnnotations()[hubv1.AnnotationRenewToken] != ""
}

// clusterChanged requests the Secret of a changed spec. A new Cluster is not Ready yet.
func (r *reconciler) clusterChanged() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			r.secretNamed(e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			for _, request := range r.secretNamed(e.ObjectNew) {
				if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
					q.Add(request)
				}
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			r.users.Set(e.Object.GetName(), "")
		},
	}
}

func (r *reconciler) secretOf(e registry.Event) []ctrl.Request {
	var cluster hubv1.Cluster
	if e.Kind != registry.EventReady {
		return nil
	}
	if err := r.hub.Get(context.Background(), client.ObjectKey{Name: string(e.Name)}, &cluster); err != nil { //nolint:forbidigo // A read of the cache.
		return nil // The Cluster has just been deleted.
	}
	return r.secretNamed(&cluster)
}

// secretNamed notes and requests the Secret of a Cluster. One that names another Secret for the same server keeps its
// app, so no remote becomes Ready.
func (r *reconciler) secretNamed(object client.Object) []ctrl.Request {
	cluster, isCluster := object.(*hubv1.Cluster)
	if !isCluster {
		return nil
	}
	secret := cluster.Spec.KubeconfigSecretRef.Name
	r.users.Set(cluster.Name, secret)
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: r.namespace, Name: secret}}}
}
