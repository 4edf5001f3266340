// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// appCache is the cache of one app. It differs from controller-runtime's in three ways:
//
//   - WaitForCacheSync waits until the cache runs, not until every informer of it has synced.
//     controller-runtime's controllers wait for their own sources besides; waiting for all of
//     them would let one forbidden resource keep every other module of the app from starting.
//   - It returns at the end of the app. A manager that is cancelled before its caches have synced
//     otherwise spins for ever (controller-runtime#3440).
//   - A read that has to wait for an informer is bounded, and after the end of the app every read
//     answers ErrStopped instead of what was true then.
//
// It also has a budget for what it holds (see budget), and survives the handlers and indexers that it
// is given. Modules see it as a moduleCache; what comes in here comes from code of the hub.
type appCache struct {
	cache.Cache
	end     context.Context //nolint:containedctx // The end of the epoch, for methods that controller-runtime calls with another one.
	timeout time.Duration
	blocked func(what string, why block)
	kindOf  func(runtime.Object) string
	budget  *budget
	hub     *guard
	readers readers

	filters  filters // the caches of modules with filters
	filtered string  // what a filtered cache selects, as a part of a sentence; empty for all objects

	indexed  sync.Map           // indexes by what indexOf calls them, also those of modules
	indexing singleflight.Group // of the hub's own: adding one may ask the remote what it serves

	once    sync.Once
	running chan struct{}
}

// newCache makes the cache of the app.
func (e *epoch) newCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	b := newBudget(e)
	all, err := e.newCacheOf("", config, o, b)
	if err != nil {
		return nil, err
	}
	all.filters, err = e.newFilters(func(f CacheFilter, by *guard) (*appCache, error) {
		return e.newCacheOf(" ("+f.String()+")", config, f.in(o, e.config.Namespaces, by), b)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (e *epoch) newCacheOf(filtered string, config *rest.Config, o cache.Options, b *budget) (*appCache, error) {
	o.NewInformer = b.newInformerOf(filtered)
	o.DefaultWatchErrorHandler = func(_ context.Context, r *toolscache.Reflector, err error) {
		e.watchFailed(r.TypeDescription(), filtered, err)
	}
	inner, err := cache.New(config, o)
	if err != nil {
		return nil, err
	}
	return &appCache{
		filtered: filtered,
		Cache:    inner,
		end:      e.ctx,
		timeout:  e.config.Client.Timeout,
		blocked:  e.tracker.blocked,
		kindOf:   e.kindOf,
		budget:   b,
		hub:      &guard{life: &e.lifetime, log: e.log},
		running:  make(chan struct{}),
	}, nil
}

// Start runs the cache until ctx ends.
func (c *appCache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for one := range c.filters.all() {
		one.begin()
		running.Go(func() { _ = one.Cache.Start(ctx) }) // It returns at the end.
	}
	if c.begin() {
		context.AfterFunc(ctx, func() { close(c.budget.ended) })
	}
	return c.Cache.Start(ctx)
}

// begin notes that the cache runs, and reports whether it does so for the first time.
func (c *appCache) begin() (first bool) {
	c.once.Do(func() {
		close(c.running)
		first = true
	})
	return first
}

// WaitForCacheSync waits until the cache runs, and reports whether it does. At the end of the
// app it reports that, too, to let the manager get on with stopping.
func (c *appCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.running:
		return true
	case <-c.end.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// GetInformer returns the informer for the object's kind.
func (c *appCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.informer(ctx, obj, opts...)
	return contain(informer, c.hub, c.budget), err
}

// GetInformerForKind returns the informer for the kind.
func (c *appCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.informerForKind(ctx, gvk, opts...)
	return contain(informer, c.hub, c.budget), err
}

// IndexField adds an index to the informer for the object's kind. Several parts of the hub may want the
// same index of a remote that is there already; the first one's is the one that they all get.
func (c *appCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return c.indexOnce(ctx, obj, field, extract, c.hub)
}

func (c *appCache) indexOnce( //nolint:revive // argument-limit: IndexField's, and whose it is.
	ctx context.Context, obj client.Object, field string, extract client.IndexerFunc, by *guard,
) error {
	name := c.indexOf(obj, field)
	_, err, _ := c.indexing.Do(name, func() (any, error) {
		if _, known := c.indexed.Load(name); known {
			return nil, nil //nolint:nilnil // There is nothing to return.
		}
		return nil, c.addIndex(ctx, obj, field, containIndexer(field, extract, by))
	})
	return err
}

func (c *appCache) addIndex(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if err := c.Cache.IndexField(ctx, obj, field, extract); err != nil {
		return err
	}
	c.indexed.Store(c.indexOf(obj, field), true)
	return nil
}

// indexOf names an index. Metadata have informers of their own.
func (c *appCache) indexOf(obj client.Object, field string) string {
	return fmt.Sprintf("%s of %T of %s", field, obj, c.kindOf(obj))
}

// informer returns the informer for the object's kind, and notes if there is no such kind.
func (c *appCache) informer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, notBlocking(opts)...)
	c.note(typeOf(obj)+c.filtered, err)
	if err != nil {
		return nil, err
	}
	return informer, c.awaitSync(ctx, informer, opts)
}

// informerForKind returns the informer for the kind, and notes if there is no such kind.
func (c *appCache) informerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformerForKind(ctx, gvk, notBlocking(opts)...)
	c.note(gvk.String()+c.filtered, err)
	if err != nil {
		return nil, err
	}
	return informer, c.awaitSync(ctx, informer, opts)
}

func notBlocking(opts []cache.InformerGetOption) []cache.InformerGetOption {
	return append(slices.Clone(opts), cache.BlockUntilSynced(false))
}

// awaitSync waits until an informer has its initial objects, unless opts say not to. controller-runtime
// would look every 100 ms, which adds up when many apps start.
func (c *appCache) awaitSync(ctx context.Context, i cache.Informer, opts []cache.InformerGetOption) error {
	var o cache.InformerGetOptions
	for _, one := range opts {
		one(&o)
	}
	if !c.isRunning() || o.BlockUntilSynced != nil && !*o.BlockUntilSynced || i.HasSynced() {
		return nil
	}
	select {
	case <-i.HasSyncedChecker().Done():
		return context.Cause(c.end)
	case <-ctx.Done():
		return apierrors.NewTimeoutError("the initial objects did not come in time", 0)
	}
}

func (c *appCache) note(what string, err error) {
	if meta.IsNoMatchError(err) {
		c.blocked(what, block{ReasonWaiting, "the remote does not serve the API: " + err.Error(), true})
		return
	}
	if err == nil {
		c.blocked(what, block{})
	}
}

// typeOf names the type of an object as client-go's reflectors do.
func typeOf(obj runtime.Object) string {
	if _, unstructured := obj.(runtime.Unstructured); unstructured {
		return obj.GetObjectKind().GroupVersionKind().String()
	}
	return fmt.Sprintf("%T", obj)
}

// Get reads one object. It waits at most the app's request timeout for an informer to sync.
func (c *appCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.readBy(guardOf(ctx), obj)
	return c.read(ctx, func(ctx context.Context) error { return c.Cache.Get(ctx, key, obj, opts...) })
}

// List reads objects. It waits at most the app's request timeout for an informer to sync.
func (c *appCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.readBy(guardOf(ctx), list)
	return c.read(ctx, func(ctx context.Context) error { return c.Cache.List(ctx, list, opts...) })
}

// readBy notes that a module reads objects: the first read starts their informer.
func (c *appCache) readBy(g *guard, obj runtime.Object) {
	if g != nil && g.module != "" && c.readers.add(readerOf(g.module, obj)) {
		c.budget.watchedBy(c.kindOf(obj), g.module)
	}
}

func (c *appCache) read(ctx context.Context, read func(context.Context) error) error {
	if c.end.Err() != nil {
		return context.Cause(c.end)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer context.AfterFunc(c.end, cancel)()
	for {
		err := read(ctx)
		// Between WaitForCacheSync and the start of the inner cache lie a few instructions.
		var early *cache.ErrCacheNotStarted
		if !errors.As(err, &early) || !c.isRunning() {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func (c *appCache) isRunning() bool {
	select {
	case <-c.running:
		return true
	default:
		return false
	}
}

// watchFailed is told by an informer that it could not list or watch. The informer goes on
// trying; the app notes what is in its way, unless it is only that a watch came to its end.
func (e *epoch) watchFailed(kind, filtered string, err error) {
	what := kind + filtered
	e.log.V(1).Info("A watch failed and is tried again", "type", what, "cause", causeOf(err))
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
	case apierrors.IsForbidden(err):
		message := "grant list and watch: " + err.Error()
		if undeclared := (*undeclaredError)(nil); errors.As(err, &undeclared) {
			message = undeclared.String()
		}
		e.tracker.blocked(what, block{ReasonForbidden, message, false})
		e.missed()
	case apierrors.IsNotFound(err):
		e.tracker.blocked(what, block{ReasonWaiting, "the remote does not serve the API of " + kind, true})
		e.missed()
	default:
		_, message := kubeconfig.Classify(err)
		e.tracker.blocked(what, block{ReasonWaiting, "cannot watch " + what + ": " + message, false})
	}
}
