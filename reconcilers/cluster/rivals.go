// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
)

// rivals finds two Clusters of different hubs that are one cluster, by recorded identity; the registry does so in one hub.
//
// A hub records the identity, waits for the watch, then looks for older Clusters: the last to write sees the other before it
// starts an app; the app of a younger one ends as soon as its hub gets the write.
type rivals struct {
	clusters client.Reader       // the cache
	byID     hubcontroller.Index // as of the events that changed has had, in their order
}

// of returns the oldest older Cluster that is the same cluster, or "". No app starts before the result is known: identity
// recorded, and the record watched. A remote that does not say which it is has no rivals.
func (r *rivals) of(ctx context.Context, cluster *hubv1.Cluster, info registry.Status) (rival registry.ClusterName, isKnown bool, err error) {
	id := cluster.Annotations[hubv1.AnnotationID]
	switch {
	case r == nil:
		return "", true, nil
	case id == "":
		return "", isAnonymous(info), nil
	case info.ID != "" && info.ID != id:
		return "", false, nil // The remote is another cluster, which the operator may have accepted.
	}
	oldest := cluster
	for _, name := range r.byID.Of(id) {
		if name == cluster.Name {
			isKnown = true
			continue
		}
		var other hubv1.Cluster
		err := r.clusters.Get(ctx, client.ObjectKey{Name: name}, &other, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return "", false, fmt.Errorf("read the Cluster %s: %w", name, err)
		}
		if err == nil && other.Annotations[hubv1.AnnotationID] == id && isBefore(&other, oldest) {
			oldest = &other
		}
	}
	if oldest != cluster {
		rival = registry.ClusterName(oldest.Name)
	}
	return rival, isKnown, nil
}

// isBefore is as state.Desired.Since defines it.
func isBefore(a, b *hubv1.Cluster) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// changed adds requests for the Clusters with an identity that one of them got or lost, itself included.
func (r *rivals) changed() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	add := func(q queue, id string) {
		for _, name := range r.byID.Of(id) {
			q.Add(ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
	}
	note := func(q queue, cluster client.Object, before, now string) {
		if before == now {
			return
		}
		r.byID.Set(cluster.GetName(), now)
		if before != "" {
			add(q, before)
		}
		if now != "" {
			add(q, now)
		}
	}
	idOf := func(cluster client.Object) string { return cluster.GetAnnotations()[hubv1.AnnotationID] }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { note(q, e.Object, "", idOf(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			note(q, e.ObjectNew, idOf(e.ObjectOld), idOf(e.ObjectNew))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { note(q, e.Object, idOf(e.Object), "") },
	}
}
