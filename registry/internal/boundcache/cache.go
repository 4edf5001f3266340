// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
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
	"github.com/clusterfx/clusterfx/registry/state"
)

// Cache is the cache of one app. Other than in controller-runtime:
//
//   - WaitForCacheSync waits until the cache runs, not for each informer: controllers wait for their own sources, and
//     one
//     forbidden resource must not keep every module from starting. It returns at the end of the app, too.
//   - A read waits for an informer for a limited time, and fails after the end of the app, with the cause.
//   - All objects have a budget, and informers that cannot list and watch are reported.
//
// A panic in a handler, indexer or transform ends the process. The Cache does not contain it; its user must.
type Cache struct {
	cache.Cache
	options Options
	budget  *budget
	readers readers

	// newFiltered makes a cache of the objects that a filter selects, within the same budget.
	newFiltered func(Filter, func(func())) (*Cache, error)
	shared      map[string]*Cache // the filtered caches by kind and selection
	filters     filters           // the caches of modules with filters
	filtered    string            // describes the objects that the cache selects, as a part of a sentence; empty for all

	indexed  sync.Map           // all indexes by their names, see indexOf
	indexing singleflight.Group // of IndexOnce, because adding an index may send a request to the remote

	unserved sync.Map // the types whose API the remote did not serve when an informer was last requested

	once    sync.Once
	running chan struct{}
	noWait  context.Context //nolint:containedctx // It has ended: a read with it does not wait for an informer.
}

// Options connect a Cache with its app. All fields except Unstreamed and Undeclared are required.
type Options struct {
	Context context.Context //nolint:containedctx // controller-runtime calls methods with contexts of its own.
	Scheme  *runtime.Scheme
	Log     logr.Logger
	Limits  Limits
	Timeout time.Duration
	// Unstreamed remembers what the API server cannot stream. Default: a memory of the cache.
	Unstreamed *Unstreamed
	Meter      *meter.Limiter

	// Blocked says why an informer of a type has no objects; the zero Block, that it has them.
	Blocked func(what string, why Block)
	// Missed is called when the API server refuses to list or watch a type, or does not serve it.
	Missed func()
	// Stale is called when an informer may have become stale, or may have recovered.
	Stale func()
	// Arrived is called after objects have arrived, in a goroutine of its own, within Limits.Refresh.
	Arrived func()
	// Fail ends the app. The error is an *OverBudgetError or the panic of a transform.
	Fail func(err error)
	// Reader returns the module on whose behalf a context reads; empty if it is not known.
	Reader func(ctx context.Context) string
	// Undeclared explains why an informer is refused. Default: it is not known.
	Undeclared Undeclared
}

// Undeclared names the permission that a module does not declare and its informer needs; empty if it declares it.
type Undeclared func(module string, refused *http.Request) (why string, problem state.Problem)

// Limits are the limits of a Cache.
type Limits struct {
	MaxObjects, MaxBytes int64
	// StaleAfter is how long an informer may fail to list and watch before it is stale. Options.Stale is called again
	// after StaleTolerance.
	StaleAfter, StaleTolerance time.Duration
	// Sync is how long a controller waits for its initial objects; 0 for no limit. A streamed list gets half of it.
	Sync time.Duration
	// Refresh is the longest time from an arrival to Options.Arrived.
	Refresh time.Duration
}

func (l Limits) list() time.Duration {
	if l.Sync <= 0 {
		return listTime
	}
	return min(listTime, l.Sync/2)
}

// Block is the reason why an informer has no objects of its type. The zero Block means that it has them.
type Block struct {
	Cause   BlockCause
	Message string
	Problem state.Problem // for advice that is not in Message
}

// BlockCause is the class of a Block. The larger cause is the more important one to an operator.
type BlockCause int

const (
	_ BlockCause = iota
	// Missing means that the remote does not serve the type. It may be installed later.
	Missing
	// Misfit means that the Go type of the kind cannot hold an object.
	Misfit
	// Failing means that lists or watches fail for a reason that may pass.
	Failing
	// Denied means that the API server refuses to list or watch the type.
	Denied
)

// New returns the cache of an app. It sends no request.
func New(config *rest.Config, o cache.Options, with Options) (*Cache, error) {
	b := newBudget(with)
	all, err := newCacheOf("", config, o, b)
	if err != nil {
		return nil, err
	}
	namespaces := slices.Sorted(maps.Keys(o.DefaultNamespaces))
	all.filters, all.shared = filters{}, map[string]*Cache{}
	all.newFiltered = func(f Filter, call func(func())) (*Cache, error) {
		return newCacheOf(" ("+f.String()+")", config, f.in(o, namespaces, call), b)
	}
	return all, nil
}

func newCacheOf(filtered string, config *rest.Config, o cache.Options, b *budget) (*Cache, error) {
	noWait, cancel := context.WithCancel(b.options.Context)
	cancel()
	c := &Cache{filtered: filtered, options: b.options, budget: b, running: make(chan struct{}), noWait: noWait}
	o.NewInformer = b.newInformerOf(filtered)
	o.DefaultWatchErrorHandler = func(_ context.Context, r *toolscache.Reflector, err error) {
		c.watchFailed(r.TypeDescription(), err)
	}
	var err error
	if c.Cache, err = cache.New(config, o); err != nil {
		return nil, err
	}
	return c, nil
}

// Start runs the cache until ctx ends.
func (c *Cache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for one := range c.filters.all() {
		one.begin()
		running.Go(func() { _ = one.Cache.Start(ctx) }) // It returns when ctx ends.
	}
	if c.begin() {
		context.AfterFunc(ctx, func() { close(c.budget.ended) })
	}
	return c.Cache.Start(ctx)
}

func (c *Cache) begin() (first bool) {
	c.once.Do(func() {
		close(c.running)
		first = true
	})
	return first
}

// WaitForCacheSync waits until the cache runs. At the end of the app it returns true, so that the manager continues to
// stop.
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
	c.noteNoMatch(c.TypeOf(obj), err)
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
	c.noteNoMatch(c.TypeOfKind(gvk), err)
	if err != nil {
		return nil, err
	}
	return informer, c.awaitSync(ctx, informer, opts)
}

// KindOf returns the kind of an object as people write it, such as Deployment.apps.
func (c *Cache) KindOf(obj runtime.Object) string { return kindOf(c.options.Scheme, obj) }

// TypeOf returns the type of an object as Options.Blocked receives it.
func (c *Cache) TypeOf(obj runtime.Object) string { return typeOf(obj) + c.filtered }

// TypeOfKind is TypeOf for a kind.
func (c *Cache) TypeOfKind(gvk schema.GroupVersionKind) string { return gvk.String() + c.filtered }

// IndexField adds an index to the informer for the object's kind.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if err := c.Cache.IndexField(ctx, obj, field, extract); err != nil {
		return err
	}
	c.indexed.Store(c.indexOf(obj, field), true)
	return nil
}

// IndexOnce adds an index unless it exists: several parts of the hub may want the same one.
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

// indexOf counts metadata-only objects apart, which have informers of their own.
func (c *Cache) indexOf(obj client.Object, field string) string {
	return fmt.Sprintf("%s of %T of %s", field, obj, c.KindOf(obj))
}

func notBlocking(opts []cache.InformerGetOption) []cache.InformerGetOption {
	return append(slices.Clone(opts), cache.BlockUntilSynced(false))
}

// awaitSync waits without controller-runtime's polls of 100 ms, which add up when many apps start.
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

// noteNoMatch ends only the Block of a type that was not served: an informer may exist already, and its lists may fail.
func (c *Cache) noteNoMatch(what string, err error) {
	if meta.IsNoMatchError(err) {
		c.options.Blocked(what, Block{Cause: Missing, Message: "the remote does not serve the API: " + err.Error()})
		c.unserved.Store(what, true) // after the call, so that a success at the same time leaves no Block without it
		return
	}
	if err != nil {
		return
	}
	if _, was := c.unserved.LoadAndDelete(what); was {
		c.options.Blocked(what, Block{})
	}
}

func typeOf(obj runtime.Object) string {
	if _, unstructured := obj.(runtime.Unstructured); unstructured {
		return obj.GetObjectKind().GroupVersionKind().String()
	}
	return fmt.Sprintf("%T", obj)
}

// kindOf is the same for an object, a response with it, and a list.
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

// watchFailed shows a Block, except at the ordinary end of a watch. The informer tries again.
func (c *Cache) watchFailed(kind string, err error) {
	what := kind + c.filtered
	c.options.Log.V(1).Info("A watch failed and is tried again", "type", what, "cause", causeOf(err).text)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
	case apierrors.IsForbidden(err):
		block := Block{Cause: Denied, Message: "grant list and watch: " + err.Error()}
		if explained := (*explainedError)(nil); errors.As(err, &explained) {
			block.Message, block.Problem = explained.why, explained.problem
		}
		c.options.Blocked(what, block)
		c.options.Missed()
	case apierrors.IsNotFound(err):
		c.options.Blocked(what, Block{Cause: Missing, Message: "the remote does not serve the API of " + kind})
		c.options.Missed()
	default:
		_, message := kubeconfig.Classify(err)
		cause := Failing
		if errors.Is(err, ErrMisfit) {
			cause = Misfit
		}
		c.options.Blocked(what, Block{cause, "cannot watch " + what + ": " + message, problemOf(err)})
	}
}

// NoteWatcher lets errors name the module that watches a kind.
func (c *Cache) NoteWatcher(kind, module string) { c.budget.watchedBy(kind, module) }

// Held returns the amounts of the last measurement by kind.
func (c *Cache) Held() map[string]Amount { return c.budget.byKind() }

// Stale returns the stale informers, of each kind the longest blocked one.
func (c *Cache) Stale(now time.Time) []InformerStatus { return c.budget.stale(now) }

// Blind returns the kind of an informer that a module uses and that has not synced or is stale; empty if there is none.
func (c *Cache) Blind(module string, now time.Time) string { return c.budget.blind(module, now) }
