// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// moduleCache is the app's cache as one module sees it. Informers call the handlers and indexers
// that they were given in goroutines of their own, and with them the predicates, handlers and map
// functions of controllers, which are all wrapped in one handler per source. A panic there ends the
// process; so all that goes into an informer goes in with its module's guard around it.
type moduleCache struct {
	*appCache
	guard *guard
}

func newModuleCache(c cache.Cache, g *guard) *moduleCache {
	return &moduleCache{appCache: c.(*appCache), guard: g}
}

// GetInformer returns the informer for the object's kind.
func (c *moduleCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	from := c.of(c.guard.module, obj)
	kind, what := c.kindOf(obj), typeOf(obj)+from.filtered
	c.budget.watchedBy(kind, c.guard.module)
	watcherOf(ctx).watches(kind, what)
	informer, err := from.informer(ctx, obj, opts...)
	return containFor(watcherOf(ctx), what, contain(informer, c.guard, c.budget)), err
}

// GetInformerForKind returns the informer for the kind.
func (c *moduleCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	from := c.ofKind(c.guard.module, gvk)
	kind, what := gvk.GroupKind().String(), gvk.String()+from.filtered
	c.budget.watchedBy(kind, c.guard.module)
	watcherOf(ctx).watches(kind, what)
	informer, err := from.informerForKind(ctx, gvk, opts...)
	return containFor(watcherOf(ctx), what, contain(informer, c.guard, c.budget)), err
}

// Get reads one object.
func (c *moduleCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	from := c.of(c.guard.module, obj)
	from.readBy(c.guard, obj)
	return from.Get(ctx, key, obj, opts...)
}

// List reads objects.
func (c *moduleCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	from := c.of(c.guard.module, list)
	from.readBy(c.guard, list)
	return from.List(ctx, list, opts...)
}

// RemoveInformer removes the informer for the object's kind.
func (c *moduleCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	return c.of(c.guard.module, obj).RemoveInformer(ctx, obj)
}

// IndexField adds an index to the informer for the object's kind.
func (c *moduleCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return c.of(c.guard.module, obj).addIndex(ctx, obj, field, containIndexer(field, extract, c.guard))
}

// containIndexer returns an indexer that has no values where extract panics.
func containIndexer(field string, extract client.IndexerFunc, g *guard) client.IndexerFunc {
	what := "index " + field
	return func(obj client.Object) (values []string) {
		returned := false
		defer g.check(what, &returned)
		values = extract(obj)
		returned = true
		return values
	}
}

// containedInformer is an informer as one module sees it.
type containedInformer struct {
	cache.Informer
	guard  *guard
	budget *budget
	// by is the controller that asked for it, if it was one, and what is what it asked for.
	by   *watcher
	what string
}

// containFor returns an informer that tells a controller of the handlers that are added to it.
func containFor(by *watcher, what string, i cache.Informer) cache.Informer {
	if one, ok := i.(*containedInformer); ok {
		one.by, one.what = by, what
	}
	return i
}

func contain(i cache.Informer, g *guard, b *budget) cache.Informer {
	if i == nil {
		return nil
	}
	return &containedInformer{Informer: i, guard: g, budget: b}
}

// AddEventHandler adds a handler.
func (i *containedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	one := &containedHandler{handler: h, guard: i.guard}
	handle, err := i.Informer.AddEventHandler(one)
	return i.added(one, handle, err)
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i *containedInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	one := &containedHandler{handler: h, guard: i.guard}
	handle, err := i.Informer.AddEventHandlerWithResyncPeriod(one, period)
	return i.added(one, handle, err)
}

// AddEventHandlerWithOptions adds a handler.
func (i *containedInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	one := &containedHandler{handler: h, guard: i.guard}
	handle, err := i.Informer.AddEventHandlerWithOptions(one, o)
	return i.added(one, handle, err)
}

// containedRegistration is a handler that was added to a containedInformer.
type containedRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	handler *containedHandler
}

func (i *containedInformer) added(
	h *containedHandler, handle toolscache.ResourceEventHandlerRegistration, err error,
) (toolscache.ResourceEventHandlerRegistration, error) {
	if err != nil {
		return nil, err
	}
	i.budget.watch(h)
	i.by.hears(i.what, handle)
	i.awaitFirstLook(handle)
	return &containedRegistration{handle, h}, nil
}

// firstLook is when controller-runtime's controllers look a second time whether a handler has been told
// of all initial objects.
const firstLook = 100 * time.Millisecond

// awaitFirstLook gives a handler of an informer that has its objects the time to be told of them, which is
// some milliseconds, so that the first look finds it done.
func (i *containedInformer) awaitFirstLook(handle toolscache.ResourceEventHandlerRegistration) {
	if !i.HasSynced() {
		return
	}
	patience := time.NewTimer(firstLook)
	defer patience.Stop()
	select {
	case <-handle.HasSyncedChecker().Done():
	case <-patience.C:
	}
}

// RemoveEventHandler removes a handler.
func (i *containedInformer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	if one, ok := handle.(*containedRegistration); ok {
		i.budget.unwatch(one.handler)
		handle = one.ResourceEventHandlerRegistration
	}
	return i.Informer.RemoveEventHandler(handle)
}

// AddIndexers adds indices. An indexer that returns an error fails its module, as one that panics
// does: client-go would panic for it.
func (i *containedInformer) AddIndexers(indexers toolscache.Indexers) error {
	all := toolscache.Indexers{}
	for name, one := range indexers {
		all[name] = i.containIndexFunc("index "+name, one)
	}
	return i.Informer.AddIndexers(all)
}

func (i *containedInformer) containIndexFunc(what string, f toolscache.IndexFunc) toolscache.IndexFunc {
	return func(obj any) (values []string, _ error) {
		returned := false
		defer i.guard.check(what, &returned)
		values, err := f(obj)
		returned = true
		if err != nil {
			i.guard.fail(fmt.Errorf("%s: %w", what, err))
			return nil, nil
		}
		return values, nil
	}
}

// containedHandler is an event handler whose panics fail its module. Once the app has failed it is
// not called any more.
//
// What a handler has not been told yet waits in memory, without a bound. So a handler that does not
// return while there is more for it to do fails its module, too (see budget.refresh).
type containedHandler struct {
	handler toolscache.ResourceEventHandler
	guard   *guard
	calls   atomic.Uint64 // odd during a call

	// The call that was found in progress, and when. They belong to whoever counts for the budget.
	found uint64
	since time.Time
}

var _ toolscache.ResourceEventHandler = (*containedHandler)(nil)

const handling = "event handler"

// stuckFor returns for how long the handler is known to have been in the same call.
func (h *containedHandler) stuckFor(now time.Time) time.Duration {
	switch calls := h.calls.Load(); {
	case calls%2 == 0:
		h.found = 0
		return 0
	case calls != h.found:
		h.found, h.since = calls, now
	}
	return now.Sub(h.since)
}

// OnAdd tells the handler of a new object.
func (h *containedHandler) OnAdd(obj any, initial bool) {
	if h.guard.broken() {
		return
	}
	h.calls.Add(1)
	defer h.calls.Add(1)
	returned := false
	defer h.guard.check(handling, &returned)
	h.handler.OnAdd(obj, initial)
	returned = true
}

// OnUpdate tells the handler of a changed object.
func (h *containedHandler) OnUpdate(before, after any) {
	if h.guard.broken() {
		return
	}
	h.calls.Add(1)
	defer h.calls.Add(1)
	returned := false
	defer h.guard.check(handling, &returned)
	h.handler.OnUpdate(before, after)
	returned = true
}

// OnDelete tells the handler of a deleted object.
func (h *containedHandler) OnDelete(obj any) {
	if h.guard.broken() {
		return
	}
	h.calls.Add(1)
	defer h.calls.Add(1)
	returned := false
	defer h.guard.check(handling, &returned)
	h.handler.OnDelete(obj)
	returned = true
}
