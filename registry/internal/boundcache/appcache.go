// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Cache is the cache of one app. It differs from controller-runtime's in three ways:
//
//   - WaitForCacheSync waits until the cache runs, not until every informer of it has synced.
//     controller-runtime's controllers wait for their own sources besides; waiting for all of
//     them would let one forbidden resource keep every other module of the app from starting.
//   - It returns at the end of the app. A manager that is cancelled before its caches have synced
//     otherwise spins for ever (controller-runtime#3440).
//   - A read that has to wait for an informer is bounded, and after the end of the app every read
//     answers ErrStopped instead of what was true then.
//
// It also has a budget for what it holds (see budget). It calls the handlers and indexers that it is given as
// informers do: a panic of one ends the process. So an app hands out its cache with the code of each module contained.
type Cache struct {
	cache.Cache
	options Options
	budget  *budget
	readers readers

	// inner makes a cache of what a filter selects, within the same budget.
	inner    func(Filter, func(func())) (*Cache, error)
	alike    map[string]*Cache // the filtered caches by kind and selection
	filters  filters           // the caches of modules with filters
	filtered string            // what a filtered cache selects, as a part of a sentence; empty for all objects

	indexed  sync.Map           // indexes by what indexOf calls them, also those of modules
	indexing singleflight.Group // of the hub's own: adding one may ask the remote what it serves

	once    sync.Once
	running chan struct{}
}

// Options are what the cache of an app needs of the app.
type Options struct {
	// Context ends with the app: nothing waits for the cache after that.
	Context context.Context //nolint:containedctx // controller-runtime calls methods with contexts of its own.
	Scheme  *runtime.Scheme
	Log     logr.Logger
	Limits  Limits
	// Timeout is how long a read waits for an informer.
	Timeout time.Duration
	// Meter counts what responses of the app become in memory.
	Meter *meter.Limiter

	// Blocked is called with why the objects of a type cannot be had, and with the zero block when they can.
	Blocked func(what string, why Block)
	// Missed is called when the API server refuses to list or watch a type, or does not serve it.
	Missed func()
	// Stale is called when an informer may have become stale, or is no longer.
	Stale func()
	// Arrived is called in a goroutine of its own within Limits.Refresh after objects have arrived.
	Arrived func()
	// Fail ends the app, with an overBudgetError or the panic of a transform.
	Fail func(err error)
	// Reader returns the module on whose behalf something is read; empty if that is not known.
	Reader func(ctx context.Context) string
	// Sanitize makes a text of the remote fit for the log.
	Sanitize func(text string) string
	// Decode calls a function that sends a request and decodes the response, and removes from its error what the
	// decoder quotes.
	Decode func(ctx context.Context, what string, call func(context.Context) error) error
}

// Limits limit the cache of an app.
type Limits struct {
	// MaxObjects and MaxBytes are the budget.
	MaxObjects, MaxBytes int64
	// StaleAfter is for how long an informer may be unable to list and watch before it is stale. StaleTolerance is
	// for how long after that callers tolerate it: Stale is called then, too.
	StaleAfter, StaleTolerance time.Duration
	// Refresh bounds the time from the arrival of objects to the next call of Arrived.
	Refresh time.Duration
}

// Block says why the objects of a type cannot be had. The zero block says that they can.
type Block struct {
	Cause   Cause
	Message string
}

// Cause is a kind of block. A larger one needs more of an operator.
type Cause int

const (
	_ Cause = iota
	// missing: the remote does not serve the type. Nothing is wrong, it may be installed.
	Missing
	// failing: lists or watches fail in a way that may pass.
	failing
	// denied: the API server refuses to list or watch.
	Denied
)

// New makes the cache of an app.
func New(config *rest.Config, o cache.Options, with Options) (*Cache, error) {
	b := newBudget(with)
	all, err := newCacheOf("", config, o, b)
	if err != nil {
		return nil, err
	}
	namespaces := slices.Sorted(maps.Keys(o.DefaultNamespaces))
	all.filters, all.alike = filters{}, map[string]*Cache{}
	all.inner = func(f Filter, call func(func())) (*Cache, error) {
		return newCacheOf(" ("+f.String()+")", config, f.in(o, namespaces, call), b)
	}
	return all, nil
}

func newCacheOf(filtered string, config *rest.Config, o cache.Options, b *budget) (*Cache, error) {
	c := &Cache{filtered: filtered, options: b.options, budget: b, running: make(chan struct{})}
	o.NewInformer = b.newInformerOf(filtered)
	o.DefaultWatchErrorHandler = func(_ context.Context, r *toolscache.Reflector, err error) {
		c.watchFailed(r.TypeDescription(), err)
	}
	var err error
	c.Cache, err = cache.New(config, o)
	return c, err
}

// Start runs the cache until ctx ends.
func (c *Cache) Start(ctx context.Context) error {
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
func (c *Cache) begin() (first bool) {
	c.once.Do(func() {
		close(c.running)
		first = true
	})
	return first
}

// WaitForCacheSync waits until the cache runs, and reports whether it does. At the end of the
// app it reports that, too, to let the manager get on with stopping.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.running:
		return true
	case <-c.options.Context.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// GetInformer returns the informer for the object's kind.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, obj, notBlocking(opts)...)
	c.note(c.TypeOf(obj), err)
	if err != nil {
		return nil, err
	}
	return informer, c.awaitSync(ctx, informer, opts)
}

// GetInformerForKind returns the informer for the kind.
func (c *Cache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	informer, err := c.Cache.GetInformerForKind(ctx, gvk, notBlocking(opts)...)
	c.note(c.TypeOfKind(gvk), err)
	if err != nil {
		return nil, err
	}
	return informer, c.awaitSync(ctx, informer, opts)
}

// KindOf names the kind of an object for people.
func (c *Cache) KindOf(obj runtime.Object) string { return kindOf(c.options.Scheme, obj) }

// TypeOf names the type of an object in this cache, as Options.Blocked gets it.
func (c *Cache) TypeOf(obj runtime.Object) string { return typeOf(obj) + c.filtered }

// TypeOfKind is what for a kind.
func (c *Cache) TypeOfKind(gvk schema.GroupVersionKind) string { return gvk.String() + c.filtered }

// IndexField adds an index to the informer for the object's kind.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if err := c.Cache.IndexField(ctx, obj, field, extract); err != nil {
		return err
	}
	c.indexed.Store(c.indexOf(obj, field), true)
	return nil
}

// IndexOnce adds an index to the informer for the object's kind, unless it is there. Several parts of the hub may want the
// same index of a remote; the first one's is the one that they all get.
func (c *Cache) IndexOnce(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	name := c.indexOf(obj, field)
	_, err, _ := c.indexing.Do(name, func() (any, error) {
		if _, known := c.indexed.Load(name); known {
			return nil, nil //nolint:nilnil // There is nothing to return.
		}
		return nil, c.IndexField(ctx, obj, field, extract)
	})
	return err
}

// indexOf names an index. Metadata have informers of their own.
func (c *Cache) indexOf(obj client.Object, field string) string {
	return fmt.Sprintf("%s of %T of %s", field, obj, c.KindOf(obj))
}

func notBlocking(opts []cache.InformerGetOption) []cache.InformerGetOption {
	return append(slices.Clone(opts), cache.BlockUntilSynced(false))
}

// awaitSync waits until an informer has its initial objects, unless opts say not to. controller-runtime
// would look every 100 ms, which adds up when many apps start.
func (c *Cache) awaitSync(ctx context.Context, i cache.Informer, opts []cache.InformerGetOption) error {
	var o cache.InformerGetOptions
	for _, one := range opts {
		one(&o)
	}
	if !c.isRunning() || o.BlockUntilSynced != nil && !*o.BlockUntilSynced || i.HasSynced() {
		return nil
	}
	select {
	case <-i.HasSyncedChecker().Done():
		return context.Cause(c.options.Context)
	case <-ctx.Done():
		return apierrors.NewTimeoutError("the initial objects did not come in time", 0)
	}
}

func (c *Cache) note(what string, err error) {
	if meta.IsNoMatchError(err) {
		c.options.Blocked(what, Block{Missing, "the remote does not serve the API: " + err.Error()})
		return
	}
	if err == nil {
		c.options.Blocked(what, Block{})
	}
}

// typeOf names the type of an object as client-go's reflectors do.
func typeOf(obj runtime.Object) string {
	if _, unstructured := obj.(runtime.Unstructured); unstructured {
		return obj.GetObjectKind().GroupVersionKind().String()
	}
	return fmt.Sprintf("%T", obj)
}

// kindOf names the kind of an object for people. It is the same for an object, for what the API
// server sends of it, and for a list of such objects.
func kindOf(s *runtime.Scheme, obj runtime.Object) string {
	gvk, err := apiutil.GVKForObject(obj, s)
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	if meta.IsListType(obj) {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return gvk.GroupKind().String()
}

// Get reads one object. It waits at most the app's request timeout for an informer to sync.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.NoteReader(c.options.Reader(ctx), obj)
	return c.read(ctx, func(ctx context.Context) error { return c.Cache.Get(ctx, key, obj, opts...) })
}

// List reads objects. It waits at most the app's request timeout for an informer to sync.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.NoteReader(c.options.Reader(ctx), list)
	return c.read(ctx, func(ctx context.Context) error { return c.Cache.List(ctx, list, opts...) })
}

// NoteReader notes that a module reads objects: the first read starts their informer.
func (c *Cache) NoteReader(module string, obj runtime.Object) {
	if module != "" && c.readers.add(readerOf(module, obj)) {
		c.budget.watchedBy(c.KindOf(obj), module)
	}
}

func (c *Cache) read(ctx context.Context, read func(context.Context) error) error {
	if c.options.Context.Err() != nil {
		return context.Cause(c.options.Context)
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	defer context.AfterFunc(c.options.Context, cancel)()
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

func (c *Cache) isRunning() bool {
	select {
	case <-c.running:
		return true
	default:
		return false
	}
}

// watchFailed is told by an informer that it could not list or watch. The informer goes on
// trying; the app notes what is in its way, unless it is only that a watch came to its end.
func (c *Cache) watchFailed(kind string, err error) {
	what := kind + c.filtered
	c.options.Log.V(1).Info("A watch failed and is tried again", "type", what, "cause", causeOf(err))
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
	case apierrors.IsForbidden(err):
		message := "grant list and watch: " + err.Error()
		if explained := (*explainedError)(nil); errors.As(err, &explained) {
			message = explained.why
		}
		c.options.Blocked(what, Block{Denied, message})
		c.options.Missed()
	case apierrors.IsNotFound(err):
		c.options.Blocked(what, Block{Missing, "the remote does not serve the API of " + kind})
		c.options.Missed()
	default:
		_, message := kubeconfig.Classify(err)
		c.options.Blocked(what, Block{failing, "cannot watch " + what + ": " + message})
	}
}

// NoteWatcher notes that a module watches a kind, to be able to name it when there are too many objects.
func (c *Cache) NoteWatcher(kind, module string) { c.budget.watchedBy(kind, module) }

// Held returns what the informers held at the last count, added up by kind.
func (c *Cache) Held() map[string]Amount { return c.budget.byKind() }

// Stale returns the informers that are stale, one for each kind: that which has been blocked for longest.
func (c *Cache) Stale(now time.Time) []InformerStatus { return c.budget.stale(now) }

// LagsFor returns the first informer of a module that is not synced or stale, and whether there is one: what its store
// lacks may be there.
func (c *Cache) LagsFor(module string, now time.Time) (InformerStatus, bool) {
	return c.budget.lagsFor(module, now)
}
