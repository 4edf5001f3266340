// SPDX-License-Identifier: Apache-2.0

package side

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry/deletes"
)

// clusterView is the objects of one kind in a cluster with a cache.
type clusterView struct {
	cluster cluster.Cluster
	object  client.Object
	seen    *tombstones
}

// reader returns the cache, because the client reads unstructured objects from the API server.
func (v *clusterView) Reader(Access) client.Reader { return v.cluster.GetCache() }

func (v *clusterView) Requests(observe Observer) source.TypedSource[reconcile.Request] {
	h := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		return requestsFor(observe(ctx, obj, v.seen.has(obj)))
	})
	// The cache replaces an object that a list no longer has without a deletion that a watch has reported.
	noted := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { v.seen.forget(e.Object); return true },
		DeleteFunc: func(e event.DeleteEvent) bool {
			if !e.DeleteStateUnknown {
				v.seen.add(e.Object)
			}
			return true
		},
	}
	return source.Kind(v.cluster.GetCache(), v.object, h, predicate.Predicate(noted))
}

// declare adds the tombstone of an object that a watch has reported as deleted. Kinds of custom resources have none: their
// watch reports each object as deleted, too, when the CustomResourceDefinition is deleted.
func (v *clusterView) Declare(ctx context.Context, key types.NamespacedName) (context.Context, error) {
	kind, err := apiutil.GVKForObject(v.object, v.cluster.GetScheme())
	if err != nil {
		return ctx, err
	}
	revision, ok := v.seen.revision(key)
	if !ok || !isBuiltIn(kind.Group) {
		return ctx, nil
	}
	return deletes.OnPurpose(ctx, deletes.Tombstone(kind.Kind+" "+key.String(), revision)), nil
}

// isBuiltIn reports whether a group belongs to Kubernetes itself, so that its kinds do not disappear.
func isBuiltIn(group string) bool { return clientgoscheme.Scheme.IsGroupRegistered(group) }

func requestsFor(keys []types.NamespacedName) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		all = append(all, reconcile.Request{NamespacedName: key})
	}
	return all
}

// maxTombstones bounds the deleted objects that a view remembers. An object that is dropped is deleted without evidence.
const maxTombstones = 100_000

// tombstones are the objects that a watch has reported as deleted, with their last revisions.
type tombstones struct {
	mu  sync.Mutex // protects the map
	all map[types.NamespacedName]string
}

func newTombstones() *tombstones { return &tombstones{all: map[types.NamespacedName]string{}} }

func (t *tombstones) add(obj client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= maxTombstones {
		clear(t.all)
	}
	t.all[client.ObjectKeyFromObject(obj)] = obj.GetResourceVersion()
}

func (t *tombstones) forget(obj client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, client.ObjectKeyFromObject(obj))
}

func (t *tombstones) has(obj client.Object) bool {
	revision, ok := t.revision(client.ObjectKeyFromObject(obj))
	return ok && revision == obj.GetResourceVersion()
}

func (t *tombstones) revision(key types.NamespacedName) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	revision, ok := t.all[key]
	return revision, ok
}
