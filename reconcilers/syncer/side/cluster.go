// SPDX-License-Identifier: Apache-2.0

package side

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
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
	seen    *tombstones
	refused func() // may be nil
}

// Reader returns the cache: the client reads unstructured objects from the API server.
func (v *clusterView) Reader() client.Reader { return v.cluster.GetCache() }

func (v *clusterView) Requests(observe Notify) source.TypedSyncingSource[reconcile.Request] {
	h := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		return requestsFor(observe(ctx, obj, v.seen.has(obj)))
	})
	// The cache replaces an object without a deletion that a watch has reported.
	noted := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { v.seen.forget(e.Object); return true },
		DeleteFunc: func(e event.DeleteEvent) bool {
			if !e.DeleteStateUnknown {
				v.seen.add(e.Object)
			}
			return true
		},
	}
	return &endingKind{view: v, handler: h, noted: noted}
}

// endingKind is a source.Kind whose handler ends with the context of the source, and not with the cache.
type endingKind struct {
	view    *clusterView
	handler handler.EventHandler
	noted   predicate.Predicate
	inner   source.SyncingSource // nil before Start
}

func (k *endingKind) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	from := endingCache{Cache: k.view.cluster.GetCache(), ends: ctx, refused: k.view.refused}
	k.inner = source.Kind(cache.Cache(from), k.view.object, k.handler, k.noted)
	return k.inner.Start(ctx, queue)
}

func (k *endingKind) WaitForSync(ctx context.Context) error { return k.inner.WaitForSync(ctx) }

type endingCache struct {
	cache.Cache
	ends    context.Context //nolint:containedctx // The life of the source.
	refused func()
}

func (c endingCache) GetInformer(ctx context.Context, obj client.Object, o ...cache.InformerGetOption) (cache.Informer, error) {
	found, err := c.Cache.GetInformer(ctx, obj, o...)
	return endingInformer{found, c}, err
}

type endingInformer struct {
	cache.Informer
	of endingCache
}

func (i endingInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.of.refused != nil {
		h = refusable{h, i.of.refused}
	}
	added, err := i.Informer.AddEventHandlerWithOptions(h, o)
	if err == nil {
		context.AfterFunc(i.of.ends, func() { _ = i.RemoveEventHandler(added) }) // It fails only for one of another informer.
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
	last, ok := v.seen.of(key)
	if !ok {
		return ctx, nil
	}
	one := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, CreationTimestamp: last.created, DeletionTimestamp: last.deleted,
		OwnerReferences: last.owners,
	}}
	err = evidence.Place{Reader: v.cluster.GetAPIReader(), Mapper: v.cluster.GetRESTMapper()}.OnPurpose(ctx, kind, one)
	switch {
	case errors.Is(err, evidence.ErrNone), apierrors.IsForbidden(err):
		return ctx, nil
	case err != nil:
		return ctx, fmt.Errorf("judge the deletion of %s %s: %w", kind.Kind, key, err)
	}
	return deletes.OnPurpose(ctx, deletes.Tombstone(kind.Kind+" "+key.String(), last.revision)), nil
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

type tombstone struct {
	revision string // the last one
	created  metav1.Time
	deleted  *metav1.Time
	owners   []metav1.OwnerReference
}

type tombstones struct {
	mu  sync.Mutex
	all map[types.NamespacedName]tombstone
}

func newTombstones() *tombstones { return &tombstones{all: map[types.NamespacedName]tombstone{}} }

func (t *tombstones) add(obj client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= maxTombstones {
		clear(t.all)
	}
	t.all[client.ObjectKeyFromObject(obj)] = tombstone{
		obj.GetResourceVersion(), obj.GetCreationTimestamp(), obj.GetDeletionTimestamp(), obj.GetOwnerReferences(),
	}
}

func (t *tombstones) forget(obj client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, client.ObjectKeyFromObject(obj))
}

func (t *tombstones) has(obj client.Object) bool {
	known, ok := t.of(client.ObjectKeyFromObject(obj))
	return ok && known.revision == obj.GetResourceVersion()
}

func (t *tombstones) of(key types.NamespacedName) (tombstone, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.all[key]
	return known, ok
}
