// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
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
	c.budget.watchedBy(c.kindOf(obj), c.guard.module)
	informer, err := c.informer(ctx, obj, opts...)
	return contain(informer, c.guard), err
}

// GetInformerForKind returns the informer for the kind.
func (c *moduleCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	c.budget.watchedBy(gvk.GroupKind().String(), c.guard.module)
	informer, err := c.informerForKind(ctx, gvk, opts...)
	return contain(informer, c.guard), err
}

// IndexField adds an index to the informer for the object's kind.
func (c *moduleCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return c.Cache.IndexField(ctx, obj, field, containIndexer(field, extract, c.guard))
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
	guard *guard
}

func contain(i cache.Informer, g *guard) cache.Informer {
	if i == nil {
		return nil
	}
	return &containedInformer{Informer: i, guard: g}
}

// AddEventHandler adds a handler.
func (i *containedInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(&containedHandler{h, i.guard})
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i *containedInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithResyncPeriod(&containedHandler{h, i.guard}, period)
}

// AddEventHandlerWithOptions adds a handler.
func (i *containedInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(&containedHandler{h, i.guard}, o)
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
type containedHandler struct {
	handler toolscache.ResourceEventHandler
	guard   *guard
}

var _ toolscache.ResourceEventHandler = (*containedHandler)(nil)

const handling = "event handler"

// OnAdd tells the handler of a new object.
func (h *containedHandler) OnAdd(obj any, initial bool) {
	if h.guard.broken() {
		return
	}
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
	returned := false
	defer h.guard.check(handling, &returned)
	h.handler.OnDelete(obj)
	returned = true
}
