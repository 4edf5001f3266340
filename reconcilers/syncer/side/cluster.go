// SPDX-License-Identifier: Apache-2.0

package side

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

type clusterView struct {
	cluster cluster.Cluster
	object  client.Object
	seen    *lru.Cache // of *tombstone
	refused func()     // may be nil
}

// Reader returns the cache: the client reads unstructured objects from the API server.
func (v *clusterView) Reader() client.Reader { return v.cluster.GetCache() }

func (v *clusterView) Requests(observe Notify) source.TypedSyncingSource[reconcile.Request] {
	h := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		last, isGone := v.tombstone(client.ObjectKeyFromObject(obj))
		return requestsFor(observe(ctx, obj, isGone && last.ResourceVersion == obj.GetResourceVersion()))
	})
	// The cache replaces an object without a deletion that a watch has reported.
	noted := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { v.seen.Remove(client.ObjectKeyFromObject(e.Object)); return true },
		DeleteFunc: func(e event.DeleteEvent) bool {
			if !e.DeleteStateUnknown {
				v.note(e.Object)
			}
			return true
		},
	}
	return source.Kind(cache.Cache(endingCache{v.cluster.GetCache(), v.refused}), v.object, h, noted)
}

// endingCache has informers whose handlers end with the source that adds them, and not with the cache.
type endingCache struct {
	cache.Cache
	refused func()
}

// GetInformer gets the context of the source.
func (c endingCache) GetInformer(ctx context.Context, obj client.Object, o ...cache.InformerGetOption) (cache.Informer, error) {
	found, err := c.Cache.GetInformer(ctx, obj, o...)
	return endingInformer{found, ctx, c.refused}, err
}

type endingInformer struct {
	cache.Informer
	ends    context.Context //nolint:containedctx // The life of the source.
	refused func()
}

func (i endingInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.refused != nil {
		h = refusable{h, i.refused}
	}
	added, err := i.Informer.AddEventHandlerWithOptions(h, o)
	if err == nil {
		context.AfterFunc(i.ends, func() { _ = i.RemoveEventHandler(added) }) // It fails only for one of another informer.
	}
	return added, err
}

// refusable is a handler that the cache of an app tells of refused lists and watches.
type refusable struct {
	toolscache.ResourceEventHandler
	refused func()
}

func (r refusable) OnRefused() { r.refused() }

// Declare adds the tombstone of an object that a watch reported, if it was deleted by itself, and not with its
// Namespace or definition.
func (v *clusterView) Declare(ctx context.Context, key types.NamespacedName) (context.Context, error) {
	kind, err := apiutil.GVKForObject(v.object, v.cluster.GetScheme())
	if err != nil {
		return ctx, err
	}
	last, isGone := v.tombstone(key)
	if !isGone {
		return ctx, nil
	}
	err = evidence.Place{Reader: v.cluster.GetAPIReader(), Mapper: v.cluster.GetRESTMapper()}.OnPurpose(ctx, kind, last)
	switch {
	case errors.Is(err, evidence.ErrNone), apierrors.IsForbidden(err):
		return ctx, nil
	case err != nil:
		return ctx, fmt.Errorf("judge the deletion of %s %s: %w", kind.Kind, key, err)
	}
	return deletes.OnPurpose(ctx, deletes.Tombstone(kind.Kind+" "+key.String(), last.ResourceVersion)), nil
}

func requestsFor(keys []types.NamespacedName) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		all = append(all, reconcile.Request{NamespacedName: key})
	}
	return all
}

// maxTombstones bounds the memory. An object that is dropped is deleted without evidence.
const maxTombstones = 100_000

// tombstone is what is left of an object whose deletion a watch has reported.
type tombstone = metav1.PartialObjectMetadata

func (v *clusterView) note(obj client.Object) {
	v.seen.Add(client.ObjectKeyFromObject(obj), &tombstone{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), ResourceVersion: obj.GetResourceVersion(), OwnerReferences: obj.GetOwnerReferences(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
	}})
}

func (v *clusterView) tombstone(key types.NamespacedName) (*tombstone, bool) {
	known, _ := v.seen.Get(key)
	one, ok := known.(*tombstone)
	return one, ok
}
