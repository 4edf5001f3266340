// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Informer is a SharedIndexInformer with a budget. Its transform gets every object once, when it arrives, also before the
// list enters the store: it counts the object and removes its managedFields, a third of an object, of which package
// allocated keeps what readers use.
type Informer struct {
	budget   *budget
	gvk      schema.GroupVersionKind
	kind     string
	typeName string // as client-go writes it, with the selection
	example  runtime.Object
	remote   toolscache.ListerWatcherWithContext
	store    toolscache.Indexer
	synced   *signal
	resync   time.Duration                           // the default of handlers
	failed   toolscache.WatchErrorHandlerWithContext // called when a list or watch fails

	// mu orders changes of the store and additions of handlers, and protects the fields below. It is held while
	// indexers run.
	mu        sync.Mutex
	transform toolscache.TransformFunc // may be nil
	period    time.Duration            // the time between two checks for handlers that are due for a resync; 0 for never
	handlers  map[*handler]bool

	// Changed under the lock, read without, since an indexer may hang.
	phase     atomic.Int32
	reflector atomic.Pointer[toolscache.Reflector] // nil until Run

	running sync.WaitGroup // the goroutines of handlers

	streamed  atomic.Bool            // the list in progress, or the last one, was streamed: its objects pass the transform one by one
	streaming atomic.Bool            // it has not ended
	looks     atomic.Int32           // at it since an object of it arrived
	bookmarks atomic.Bool            // the API server sends them for the kind, so silence means a broken watch
	measured  atomic.Pointer[Amount] // the last measurement; nil before the first

	notes        sync.Mutex // protects the fields below; held for a few instructions
	listVersion  string     // the resource version at the beginning of the list in progress, or of the last one
	arrived      Amount     // objects since then
	sample       Amount     // objects whose size was estimated
	pages        pages      // of the list in progress
	freshness    freshness
	emptyStreams int   // streamed lists in a row that ended without an object
	explanation  cause // of the last refusal for lack of permissions; may be zero
}

const (
	unstarted = iota
	started
	stopped
)

var (
	errStarted = errors.New("the informer has already started")
	errFixed   = errors.New("the cache handles the errors of watches")
	errStopped = errors.New("the informer has already stopped")
)

// newInformer has the arguments of client-go's NewSharedIndexInformer.
func (s *selection) newInformer(
	lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	gvk, _ := apiutil.GVKForObject(example, s.options.Scheme) // A kind that is not known has no fields that an API server allocates.
	i := &Informer{
		budget: s.budget, gvk: gvk, kind: kindOf(s.options.Scheme, example), typeName: typeOf(example) + s.filtered,
		example:  example,
		remote:   toolscache.ToListerWatcherWithContext(lw),
		synced:   newSignal(fmt.Sprintf("informer of %T", example)),
		store:    toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, indexers),
		resync:   resync,
		failed:   s.watchFailed,
		period:   resync,
		handlers: map[*handler]bool{},
	}
	s.add(i)
	return i
}

// Run is RunWithContext with a channel.
func (i *Informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext lists and watches until ctx ends, and returns when no handler runs; a second call at once.
func (i *Informer) RunWithContext(ctx context.Context) {
	// controller-runtime passes the context of a channel, which is not of Go's own type: each context derived from it
	// has a goroutine that waits. Those derived from inner have none. client-go would log responses of the remote, often in
	// its words and as often as it likes: a thousand lines a second, a megabyte in one line.
	inner, cancel := context.WithCancel(logr.NewContext(ctx, logr.Discard()))
	defer cancel()
	reflector := i.start()
	if reflector == nil {
		return
	}
	defer i.running.Wait()
	defer i.Stop()
	delay := backoff()
	pause := delay.DelayWithReset(clock.RealClock{}, backoffReset)
	// The goroutine waits in the watch, with the stack that it has there. The frames of wait.Until would double that stack.
	for inner.Err() == nil {
		i.round(ctx, inner, reflector)
		select {
		case <-time.After(pause()):
		case <-inner.Done():
		}
	}
}

// round counts a panic as a failure where runtime.ReallyCrash says so.
func (i *Informer) round(logged, ctx context.Context, reflector *toolscache.Reflector) {
	defer utilruntime.HandleCrashWithContext(logged)
	err := reflector.ListAndWatchWithContext(ctx)
	if err == nil || ctx.Err() != nil && i.IsStopped() {
		return
	}
	i.failed(ctx, reflector, err)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		i.tellRefused()
	}
}

// backoff is that of client-go.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}
}

// backoffReset is the time without a failure after which the pauses are short again. It is that of client-go.
const backoffReset = 2 * time.Minute

// start returns nil if the informer was started before.
func (i *Informer) start() *toolscache.Reflector {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase.Load() != unstarted {
		return nil
	}
	i.phase.Store(started)
	lw := &toolscache.ListWatch{ListWithContextFunc: i.list, WatchFuncWithContext: i.watch}
	silent := logr.Discard()
	reflector := toolscache.NewReflectorWithOptions(lw, i.example, sink{i},
		toolscache.ReflectorOptions{Logger: &silent, Name: i.synced.name, ResyncPeriod: i.period})
	reflector.ShouldResync = i.findDue
	i.reflector.Store(reflector)
	return reflector
}

// Stop ends the handlers, and refuses further ones; Run calls it. It does not wait for a handler in a call.
func (i *Informer) Stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.phase.Store(stopped)
	for h := range i.handlers {
		h.end()
	}
	clear(i.handlers)
	i.synced.end()
}

// SetTransform sets what every object passes before it is counted and stored. It fails after the start.
func (i *Informer) SetTransform(f toolscache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase.Load() != unstarted {
		return errStarted
	}
	i.transform = f
	return nil
}

// SetWatchErrorHandler fails.
func (i *Informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errFixed }

// SetWatchErrorHandlerWithContext fails.
func (i *Informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errFixed
}

// IsStopped reports whether the informer has ended, and accepts no handlers.
func (i *Informer) IsStopped() bool { return i.phase.Load() == stopped }

// HasSynced reports whether the first list is in the store.
func (i *Informer) HasSynced() bool { return i.synced.happened() }

// HasSyncedChecker returns a checker that is done when the first list is in the store, or when the informer ends.
func (i *Informer) HasSyncedChecker() toolscache.DoneChecker { return i.synced }

// LastSyncResourceVersion returns the resource version of the last change, list or bookmark; empty before the first.
func (i *Informer) LastSyncResourceVersion() string {
	if reflector := i.reflector.Load(); reflector != nil {
		return reflector.LastSyncResourceVersion()
	}
	return ""
}

// GetStore returns the objects.
func (i *Informer) GetStore() toolscache.Store { return i.store }

// GetIndexer returns the objects.
func (i *Informer) GetIndexer() toolscache.Indexer { return i.store }

// AddIndexers adds indexes, also of objects that are in the store already.
func (i *Informer) AddIndexers(indexers toolscache.Indexers) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase.Load() == stopped {
		return errStopped
	}
	return i.store.AddIndexers(indexers)
}

// GetController returns nil. The method is deprecated, and nothing calls it.
func (i *Informer) GetController() toolscache.Controller { return nil }
