// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Owner owns code that a user passes to the cache. Informers call handlers and indexers, and with the handlers
// predicates and map functions of controllers, in goroutines of their own, where a panic ends the process.
type Owner interface {
	// IsBroken reports whether calls of handlers are useless.
	IsBroken() bool
	// Call calls the code, and fails after a panic, or after the end of the goroutine.
	Call(what string, f func())
	// Stuck fails because a handler has not returned for a time.
	Stuck(after time.Duration, goroutines []string)
	// Fail fails with another error.
	Fail(err error)
}

// call calls code of a user.
func call(o Owner, what string, f func()) {
	if o == nil {
		f()
		return
	}
	o.Call(what, f)
}

// As returns the cache for another user. own: it is a module of the app. The module is empty for other code of the hub.
func (c *Cache) As(module string, o Owner, own bool) *Cache {
	return &Cache{app: c.app, module: module, owner: o, own: own}
}

// from returns the cache from which the user reads: that of all objects, unless it has a filter for the kind.
func (c *Cache) from(obj runtime.Object) *selection {
	if c.HasFilters(c.module) {
		kind, _ := gvkOf(c.options.Scheme, obj) // A read returns the error, too.
		if one := c.filters[c.module][kind]; one != nil {
			return one
		}
	}
	return c.all
}

// Get reads one object. It waits for an informer no longer than Options.Timeout.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	from := c.from(obj)
	return c.read(ctx, obj, func(ctx context.Context) error { return from.Get(ctx, key, obj, opts...) })
}

// List reads objects. It waits for an informer no longer than Options.Timeout.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	from := c.from(list)
	return c.read(ctx, list, func(ctx context.Context) error { return from.List(ctx, list, opts...) })
}

func (c *Cache) read(ctx context.Context, obj runtime.Object, read func(context.Context) error) error {
	c.noteReader(c.options.Reader(ctx), obj)
	if c.own {
		c.noteReader(c.module, obj)
	}
	if c.options.Context.Err() != nil {
		return context.Cause(c.options.Context)
	}
	// Most reads find a synced informer and do not wait: those need no deadline, which takes time and memory.
	if err := read(c.noWait); !hadToWait(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	defer context.AfterFunc(c.options.Context, cancel)()
	for {
		err := read(ctx)
		// The inner cache starts a few instructions after WaitForCacheSync has returned.
		if _, ok := errors.AsType[*ctrlcache.ErrCacheNotStarted](err); !ok || !c.isRunning() {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func hadToWait(err error) bool {
	var early *ctrlcache.ErrCacheNotStarted
	return apierrors.IsTimeout(err) || errors.Is(err, context.Canceled) || errors.As(err, &early)
}

func (a *app) isRunning() bool {
	select {
	case <-a.running:
		return true
	default:
		return false
	}
}

type reader struct {
	module string
	of     reflect.Type
	kind   schema.GroupVersionKind // only if the Go type does not determine it
}

// noteReader notes that a module reads objects: the first read starts their informer. It allocates nothing after that.
func (a *app) noteReader(module string, obj runtime.Object) {
	if module == "" {
		return
	}
	one := reader{module: module, of: reflect.TypeOf(obj)}
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		one.kind = obj.GetObjectKind().GroupVersionKind()
	}
	if known := a.readers.Load(); known == nil || !(*known)[one] {
		a.addReader(one, kindOf(a.options.Scheme, obj))
	}
}

func (a *app) addReader(one reader, kind string) {
	a.NoteWatcher(kind, one.module)
	a.reading.Lock()
	defer a.reading.Unlock()
	more := map[reader]bool{one: true}
	if known := a.readers.Load(); known != nil {
		maps.Copy(more, *known)
	}
	a.readers.Store(&more)
}

// GetInformer returns the informer for the object's kind.
func (c *Cache) GetInformer(
	ctx context.Context, obj client.Object, opts ...ctrlcache.InformerGetOption,
) (ctrlcache.Informer, error) {
	from, kind := c.from(obj), kindOf(c.options.Scheme, obj)
	i := &userInformer{owner: c.owner, what: typeOf(obj) + from.filtered}
	if c.module != "" {
		c.removing.Lock()
		c.NoteWatcher(kind, c.module)
		c.removing.Unlock()
	}
	if c.own {
		i.by = controllerOf(ctx)
		i.by.asks(kind, i.what)
	}
	var err error
	i.Informer, err = from.GetInformer(ctx, obj, append(slices.Clone(opts), ctrlcache.BlockUntilSynced(false))...)
	from.noteNoMatch(i.what, err)
	if err != nil {
		return nil, err
	}
	return i, c.awaitSync(ctx, i, opts)
}

// GetInformerForKind returns the informer for the kind.
func (c *Cache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...ctrlcache.InformerGetOption,
) (ctrlcache.Informer, error) {
	made, err := c.options.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	obj, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is not a type of objects", made)
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return c.GetInformer(ctx, obj, opts...)
}

// awaitSync waits without controller-runtime's polls of 100 ms, which add up when many apps start.
func (a *app) awaitSync(ctx context.Context, i *userInformer, opts []ctrlcache.InformerGetOption) error {
	var o ctrlcache.InformerGetOptions
	for _, one := range opts {
		one(&o)
	}
	if !a.isRunning() || o.BlockUntilSynced != nil && !*o.BlockUntilSynced || i.HasSynced() {
		return nil
	}
	select {
	case <-i.HasSyncedChecker().Done():
		return context.Cause(a.options.Context)
	case <-ctx.Done():
		return apierrors.NewTimeoutError("the initial objects did not come in time", 0)
	}
}

// RemoveInformer removes the informer for the object's kind, unless a handler or another module uses it: a module that needs it no
// more harms no other.
func (c *Cache) RemoveInformer(ctx context.Context, obj client.Object) error {
	from, kind := c.from(obj), kindOf(c.options.Scheme, obj)
	what := typeOf(obj) + from.filtered
	c.removing.Lock()
	defer c.removing.Unlock()
	if c.isUsed(kind, what, c.module) {
		return nil
	}
	if err := from.RemoveInformer(ctx, obj); err != nil {
		return err
	}
	c.forgetReaders(c.module)
	c.options.Blocked(what, Block{})
	c.options.Stale()
	return nil
}

// isUsed takes another form of the kind for the same.
func (b *budget) isUsed(kind, what, module string) bool {
	b.mu.Lock()
	others := slices.ContainsFunc(b.watchers[kind], func(one string) bool { return one != module })
	b.mu.Unlock()
	return others || slices.ContainsFunc(b.inUse(), func(i *Informer) bool { return i.typeName == what && i.isHandled() })
}

// forgetReaders makes the next read of a module note it again.
func (a *app) forgetReaders(module string) {
	a.reading.Lock()
	defer a.reading.Unlock()
	if known := a.readers.Load(); known != nil {
		left := maps.Clone(*known)
		maps.DeleteFunc(left, func(one reader, _ bool) bool { return one.module == module })
		a.readers.Store(&left)
	}
}

// IndexField adds an index. For users that are no module of the app it does nothing if the index exists.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	add := c.from(obj).indexOnce
	if c.own {
		add = c.from(obj).IndexField
	}
	return add(ctx, obj, field, func(obj client.Object) (values []string) {
		call(c.owner, "index "+field, func() { values = extract(obj) })
		return values
	})
}

// userInformer is one or more Informers as a user sees them: controller-runtime has one for each namespace.
type userInformer struct {
	ctrlcache.Informer
	owner Owner
	by    *Controller // requested the informer; may be nil
	what  string      // names the type of the objects
}

// owned is a handler on its way through controller-runtime.
type owned struct {
	toolscache.ResourceEventHandler
	owner Owner
}

func (i *userInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

func (i *userInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// firstLook is when the controllers of controller-runtime check again whether a handler has all initial objects.
const firstLook = 100 * time.Millisecond

// AddEventHandlerWithOptions waits some milliseconds for the initial objects of a synced informer, so that the first
// check of the controller succeeds.
func (i *userInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	handle, err := i.Informer.AddEventHandlerWithOptions(owned{h, i.owner}, o)
	if err != nil {
		return nil, err
	}
	i.by.receives(i.what, handle)
	if i.HasSynced() {
		select {
		case <-handle.HasSyncedChecker().Done():
		case <-time.After(firstLook):
		}
	}
	return handle, nil
}

// AddIndexers fails the owner for an indexer that returns an error, because client-go would panic.
func (i *userInformer) AddIndexers(indexers toolscache.Indexers) error {
	all := toolscache.Indexers{}
	for name, one := range indexers {
		all[name] = i.contained("index "+name, one)
	}
	return i.Informer.AddIndexers(all)
}

func (i *userInformer) contained(what string, f toolscache.IndexFunc) toolscache.IndexFunc {
	return func(obj any) (values []string, err error) {
		call(i.owner, what, func() { values, err = f(obj) })
		if err != nil && i.owner != nil {
			i.owner.Fail(fmt.Errorf("%s: %w", what, err))
			return nil, nil
		}
		return values, err
	}
}
