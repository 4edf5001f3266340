// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
)

// Cache is the cache of an app with a guard around the code of its user: a module, a hub part with a lease, or, with a
// guard without a module, other code of the hub. Informers call handlers and indexers, and with the handlers predicates
// and map functions of controllers, in goroutines of their own, where a panic ends the process.
type Cache struct {
	*boundcache.Cache
	guard    *Container
	handlers *Handlers
	own      bool // the user is a module of the app
}

// NewCache returns the cache of an app with the guard of its user.
func NewCache(c *boundcache.Cache, h *Handlers, g *Container) *Cache {
	return &Cache{Cache: c, guard: g, handlers: h}
}

// As returns the cache for another user.
func (c *Cache) As(g *Container, own bool) *Cache {
	return &Cache{Cache: c.Cache, guard: g, handlers: c.handlers, own: own}
}

func newModuleCache(c cache.Cache, g *Container) *Cache { return c.(*Cache).As(g, true) }

// GetInformer returns the informer for the object's kind.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	from := c.For(c.guard.Module, obj)
	one := c.containedFor(ctx, c.KindOf(obj), from.TypeOf(obj))
	return one.around(from.GetInformer(ctx, obj, opts...))
}

// GetInformerForKind returns the informer for the kind.
func (c *Cache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	from := c.ForKind(c.guard.Module, gvk)
	one := c.containedFor(ctx, gvk.GroupKind().String(), from.TypeOfKind(gvk))
	return one.around(from.GetInformerForKind(ctx, gvk, opts...))
}

// containedFor returns an incomplete informer, and notes that the user asks for it.
func (c *Cache) containedFor(ctx context.Context, kind, what string) *informer {
	one := &informer{guard: c.guard, handlers: c.handlers, what: what}
	if c.guard.Module != "" {
		c.NoteWatcher(kind, c.guard.Module)
	}
	if c.own {
		one.by = controllerOf(ctx)
		one.by.asks(kind, what)
	}
	return one
}

// Get reads one object.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.reads(obj).Get(ctx, key, obj, opts...)
}

// List reads objects.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reads(list).List(ctx, list, opts...)
}

func (c *Cache) reads(obj runtime.Object) *boundcache.Cache {
	from := c.For(c.guard.Module, obj)
	if c.own {
		from.NoteReader(c.guard.Module, obj)
	}
	return from
}

// RemoveInformer removes the informer for the object's kind.
func (c *Cache) RemoveInformer(ctx context.Context, obj client.Object) error {
	return c.For(c.guard.Module, obj).RemoveInformer(ctx, obj)
}

// IndexField adds an index. For users that are no module of the app it does nothing if the index exists.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	from, indexer := c.For(c.guard.Module, obj), containIndexer(field, extract, c.guard)
	if c.own {
		return from.IndexField(ctx, obj, field, indexer)
	}
	return from.IndexOnce(ctx, obj, field, indexer)
}

func containIndexer(field string, extract client.IndexerFunc, g *Container) client.IndexerFunc {
	what := "index " + field
	return func(obj client.Object) (values []string) {
		returned := false
		defer g.check(what, &returned)
		values = extract(obj)
		returned = true
		return values
	}
}

type informer struct {
	cache.Informer
	guard    *Container
	handlers *Handlers
	// by requested the informer, or is nil; what names the type of the objects.
	by   *Controller
	what string
}

func (i *informer) around(inner cache.Informer, err error) (cache.Informer, error) {
	if inner == nil {
		return nil, err
	}
	i.Informer = inner
	return i, err
}

func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

func (i *informer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

func (i *informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	one := &eventHandler{handler: h, guard: i.guard}
	handle, err := i.Informer.AddEventHandlerWithOptions(one, o)
	if err != nil {
		return nil, err
	}
	i.handlers.add(handle, one)
	i.by.receives(i.what, handle)
	i.awaitFirstLook(handle)
	return handle, nil
}

// firstLook is when the controllers of controller-runtime check again whether a handler has all initial objects.
const firstLook = 100 * time.Millisecond

// awaitFirstLook waits some milliseconds for a handler of a synced informer, so that the first check succeeds.
func (i *informer) awaitFirstLook(handle toolscache.ResourceEventHandlerRegistration) {
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

func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.handlers.remove(handle)
	return i.Informer.RemoveEventHandler(handle)
}

// AddIndexers fails the module for an indexer that returns an error, because client-go would panic.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	all := toolscache.Indexers{}
	for name, one := range indexers {
		all[name] = i.containIndexFunc("index "+name, one)
	}
	return i.Informer.AddIndexers(all)
}

func (i *informer) containIndexFunc(what string, f toolscache.IndexFunc) toolscache.IndexFunc {
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

// eventHandler fails its module if it panics, and is not called after the app has failed. Its events wait in memory
// without a limit, so one that does not return while more arrive fails its module, too (see Handlers).
type eventHandler struct {
	handler toolscache.ResourceEventHandler
	guard   *Container
	calls   atomic.Uint64 // odd during a call

	// What the last check found; the lock of Handlers protects it.
	found uint64
	since time.Time
}

var _ toolscache.ResourceEventHandler = (*eventHandler)(nil)

const handling = "event handler"

// stuckFor is how long the handler is known to be in the same call.
func (h *eventHandler) stuckFor(now time.Time) time.Duration {
	switch calls := h.calls.Load(); {
	case calls%2 == 0:
		h.found = 0
		return 0
	case calls != h.found:
		h.found, h.since = calls, now
	}
	return now.Sub(h.since)
}

func (h *eventHandler) OnAdd(obj any, initial bool) {
	if h.guard.IsBroken() {
		return
	}
	h.calls.Add(1)
	defer h.calls.Add(1)
	returned := false
	defer h.guard.check(handling, &returned)
	h.handler.OnAdd(obj, initial)
	returned = true
}

func (h *eventHandler) OnUpdate(before, after any) {
	if h.guard.IsBroken() {
		return
	}
	h.calls.Add(1)
	defer h.calls.Add(1)
	returned := false
	defer h.guard.check(handling, &returned)
	h.handler.OnUpdate(before, after)
	returned = true
}

func (h *eventHandler) OnDelete(obj any) {
	if h.guard.IsBroken() {
		return
	}
	h.calls.Add(1)
	defer h.calls.Add(1)
	returned := false
	defer h.guard.check(handling, &returned)
	h.handler.OnDelete(obj)
	returned = true
}
