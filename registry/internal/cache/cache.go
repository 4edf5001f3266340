// SPDX-License-Identifier: Apache-2.0

package cache

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
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Cache is the cache of one app, as one user sees it: a module, a hub part with a lease, or other code of the hub. Other
// than in controller-runtime:
//
//   - WaitForCacheSync waits until the cache runs, not for each informer: controllers wait for their own sources, and
//     one forbidden resource must not keep every module from starting. It returns at the end of the app, too.
//   - A read waits for an informer for a limited time, and fails after the end of the app, with the cause.
//   - All objects have a budget, and informers that cannot list and watch are reported.
//   - A module with a Filter reads from a cache of its own beside the others, within the same budget.
//   - Code of the user runs under the eyes of its Owner. Without an Owner a panic in it ends the process.
type Cache struct {
	*app
	module string
	owner  Owner
	own    bool // the user is a module of the app
}

// app is what all users share.
type app struct {
	*budget
	all *selection

	// filter makes a cache of the objects that a filter selects.
	filter   func(Filter, func(func())) (*selection, error)
	filtered map[string]*selection
	filters  map[string]map[schema.GroupVersionKind]*selection // by module and kind

	readers atomic.Pointer[map[reader]bool] // each read looks it up, so that takes no lock and no memory
	reading sync.Mutex                      // held while readers are replaced

	// removing is held while an informer is removed, and while one who is about to use it is noted.
	removing sync.Mutex

	once    sync.Once
	running chan struct{}
	noWait  context.Context //nolint:containedctx // It has ended: a read with it does not wait for an informer.
}

// selection is the cache of some objects, or of all.
type selection struct {
	ctrlcache.Cache
	*budget
	filtered string // describes the selection, as a part of a sentence; empty for all

	indexed  sync.Map           // all indexes by their names, see indexOf
	indexing singleflight.Group // of indexOnce, because adding an index may send a request to the remote
	unserved sync.Map           // the types whose API the remote did not serve when an informer was last requested
}

// Options connect a Cache with its app. All fields except Unstreamed and Undeclared are required; Goroutines only if there
// are Owners.
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
	// Goroutines describes the goroutines of the app, when a handler does not return.
	Goroutines func() []string
	// Fail ends the app. The error is an *OverBudgetError.
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
	// Handling is how long an event handler may take. Amounts are measured at least as often, while objects arrive.
	Handling time.Duration
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

// New returns the cache of an app, as code without an owner sees it. It sends no request.
func New(config *rest.Config, o ctrlcache.Options, with Options) (*Cache, error) {
	b := newBudget(with)
	all, err := b.newSelection("", config, o)
	if err != nil {
		return nil, err
	}
	noWait, cancel := context.WithCancel(with.Context)
	cancel()
	namespaces := slices.Sorted(maps.Keys(o.DefaultNamespaces))
	return &Cache{app: &app{
		budget: b, all: all, filtered: map[string]*selection{}, filters: map[string]map[schema.GroupVersionKind]*selection{},
		filter: func(f Filter, call func(func())) (*selection, error) {
			return b.newSelection(" ("+f.String()+")", config, f.in(o, namespaces, call))
		},
		running: make(chan struct{}), noWait: noWait,
	}}, nil
}

func (b *budget) newSelection(filtered string, config *rest.Config, o ctrlcache.Options) (s *selection, err error) {
	s = &selection{budget: b, filtered: filtered}
	o.NewInformer, o.DefaultWatchErrorHandler = s.newInformer, nil // An Informer calls watchFailed.
	s.Cache, err = ctrlcache.New(config, o)
	return s, err
}

// Start runs the cache until ctx ends.
func (c *Cache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	c.once.Do(func() {
		close(c.running)
		context.AfterFunc(ctx, func() { close(c.ended) })
	})
	for _, one := range c.filtered {
		running.Go(func() { _ = one.Start(ctx) }) // It returns when ctx ends.
	}
	return c.all.Start(ctx)
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

// indexOnce adds an index unless it exists: several parts of the hub may want the same one.
func (s *selection) indexOnce(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	name := s.indexOf(obj, field)
	_, err, _ := s.indexing.Do(name, func() (any, error) {
		if _, known := s.indexed.Load(name); known {
			return nil, nil //nolint:nilnil // There is nothing to return.
		}
		return nil, s.IndexField(ctx, obj, field, extract)
	})
	return err
}

// IndexField notes the index.
func (s *selection) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	err := s.Cache.IndexField(ctx, obj, field, extract)
	if err == nil {
		s.indexed.Store(s.indexOf(obj, field), true)
	}
	return err
}

// indexOf counts metadata-only objects apart, which have informers of their own.
func (s *selection) indexOf(obj client.Object, field string) string {
	return fmt.Sprintf("%s of %T of %s", field, obj, kindOf(s.options.Scheme, obj))
}

// noteNoMatch ends only the Block of a type that was not served: an informer may exist already, and its lists may fail.
func (s *selection) noteNoMatch(what string, err error) {
	if meta.IsNoMatchError(err) {
		s.options.Blocked(what, Block{Cause: Missing, Message: "the remote does not serve the API: " + err.Error()})
		s.unserved.Store(what, true) // after the call, so that a success at the same time leaves no Block without it
		return
	}
	if err != nil {
		return
	}
	if _, was := s.unserved.LoadAndDelete(what); was {
		s.options.Blocked(what, Block{})
	}
}

func typeOf(obj runtime.Object) string {
	if _, unstructured := obj.(runtime.Unstructured); unstructured {
		return obj.GetObjectKind().GroupVersionKind().String()
	}
	return fmt.Sprintf("%T", obj)
}

// kindOf is the same for an object, a response with it, and a list: the kind as people write it, such as
// Deployment.apps.
func kindOf(s *runtime.Scheme, obj runtime.Object) string {
	gvk, err := gvkOf(s, obj)
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return gvk.GroupKind().String()
}

func gvkOf(s *runtime.Scheme, obj runtime.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, s)
	if _, isList := obj.(client.ObjectList); isList {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return gvk, err
}

// watchFailed shows a Block, except at the ordinary end of a watch. The informer tries again.
func (s *selection) watchFailed(_ context.Context, r *toolscache.Reflector, err error) {
	kind := r.TypeDescription()
	what := kind + s.filtered
	s.options.Log.V(1).Info("A watch failed and is tried again", "type", what, "cause", causeOf(err).text)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
	case apierrors.IsForbidden(err):
		block := Block{Cause: Denied, Message: "grant list and watch: " + err.Error()}
		if explained := (*explainedError)(nil); errors.As(err, &explained) {
			block.Message, block.Problem = explained.why, explained.problem
		}
		s.options.Blocked(what, block)
		s.options.Missed()
	case apierrors.IsNotFound(err):
		s.options.Blocked(what, Block{Cause: Missing, Message: "the remote does not serve the API of " + kind})
		s.options.Missed()
	default:
		_, message := kubeconfig.Classify(err)
		cause := Failing
		if errors.Is(err, ErrMisfit) {
			cause = Misfit
		}
		s.options.Blocked(what, Block{cause, "cannot watch " + what + ": " + message, problemOf(err)})
	}
}
