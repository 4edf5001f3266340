// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// restarts reads the Pods of all edge clusters, and forgets lost clusters.
type restarts struct{ remotes *registry.Registry }

// Reconcile reads one Pod.
func (r *restarts) Reconcile(ctx context.Context, request watch.Request) (ctrl.Result, error) {
	if request.Lost {
		return ctrl.Result{}, r.forget(request.Cluster)
	}
	return ctrl.Result{}, r.remotes.WithClient(ctx, request.Cluster, func(ctx context.Context, remote client.Client) error {
		var pod corev1.Pod
		if err := remote.Get(ctx, request.NamespacedName, &pod); err != nil {
			return client.IgnoreNotFound(err)
		}
		return r.note(request.Cluster, &pod)
	})
}

func (r *restarts) forget(state.ClusterName) error            { return nil }
func (r *restarts) note(state.ClusterName, *corev1.Pod) error { return nil }

// A module's hub part gets the hub's manager and the registry, and adds a controller.
func Example() {
	setUp := func(mgr ctrl.Manager, remotes *registry.Registry) error {
		return watch.ControllerManagedBy(mgr, remotes).
			Named("restarts").
			WatchesRemote(&corev1.Pod{}, watch.Options[client.Object]{
				Select:   state.MatchLabels(labels.SelectorFromSet(labels.Set{"tier": "edge"})),
				TellLost: true,
			}).
			Complete(&restarts{remotes})
	}
	_ = setUp // registry.ModuleOptions{Hub: fx.Invoke(setUp)}
}
