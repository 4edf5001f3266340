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

// rivals finds two Clusters that are one cluster and that different hubs of a fleet run, by the identity that is recorded in
// them. The registry does so for the remotes of one hub.
//
// A hub records the identity of a Cluster, waits until the watch has reported that write, and then looks for older Clusters
// with it. So of two hubs that do this at the same time, the one that writes last sees the other Cluster before it starts an
// app. If its own Cluster is the older one, the app of the younger one ends as soon as the other hub gets the write.
type rivals struct {
	clusters client.Reader              // the cache
	byID     hubcontroller.ClusterIndex // as of the events that changed has had, in their order
}

// of returns the oldest Cluster that is older than a Cluster and is the same cluster, or "". An app may not start before the
// result is known: while the identity that the remote has now is not recorded, or the watch has not reported the record. A
// remote that does not say which cluster it is has no rivals.
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

// isBefore reports whether a Cluster is older than another one, as state.Desired.Since defines it.
func isBefore(a, b *hubv1.Cluster) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// changed returns a handler that notes the identity of each Cluster, and adds requests for the Clusters with an identity that one
// of them has got or has lost, itself included.
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
