// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Informer is a SharedIndexInformer.
type Informer struct {
	source  source
	example runtime.Object
	store   toolscache.Indexer
	synced  *signal
	resync  time.Duration // the default of handlers

	// mu orders changes of the store and additions of handlers, and protects the fields below. It is held while
	// indexers run.
	mu        sync.Mutex
	transform toolscache.TransformFunc
	failed    toolscache.WatchErrorHandlerWithContext
	period    time.Duration // the time between two checks for handlers that are due for a resync; 0 for never
	handlers  map[*handler]bool

	// Changed under the lock, read without, since an indexer may hang.
	phase     atomic.Int32
	reflector atomic.Pointer[toolscache.Reflector] // nil until Run

	running sync.WaitGroup // the goroutines of handlers
}

const (
	unstarted = iota
	started
	stopped
)

var _ toolscache.SharedIndexInformer = (*Informer)(nil)

var (
	errStarted = errors.New("the informer has already started")
	errStopped = errors.New("the informer has already stopped")
)

// New returns an informer of the objects of a ListerWatcher. The arguments are those of client-go's
// NewSharedIndexInformer.
func New(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) *Informer {
	i := &Informer{
		source:   source{inner: toolscache.ToListerWatcherWithContext(lw)},
		example:  example,
		synced:   newSignal(fmt.Sprintf("informer of %T", example)),
		resync:   resync,
		failed:   toolscache.DefaultWatchErrorHandler,
		period:   resync,
		handlers: map[*handler]bool{},
	}
	i.store = toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, indexers)
	return i
}

// Run is RunWithContext with a channel.
func (i *Informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext lists and watches until ctx ends, and returns when no handler runs; a second call at once.
func (i *Informer) RunWithContext(ctx context.Context) {
	// controller-runtime passes the context of a channel, which is not of Go's own type: each context derived from it
	// has a goroutine that waits. Those derived from inner have none.
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	reflector, failed := i.start(logr.FromContextOrDiscard(ctx))
	if reflector == nil {
		return
	}
	defer i.running.Wait()
	defer i.Stop()
	delay := backoff()
	pause := delay.DelayWithReset(clock.RealClock{}, backoffReset)
	// The goroutine waits in the watch, with the stack that it has there. The frames of wait.Until would double that stack.
	for inner.Err() == nil {
		round(inner, reflector, failed)
		select {
		case <-time.After(pause()):
		case <-inner.Done():
		}
	}
}

// round counts a panic as a failure where runtime.ReallyCrash says so.
func round(ctx context.Context, reflector *toolscache.Reflector, failed toolscache.WatchErrorHandlerWithContext) {
	defer utilruntime.HandleCrashWithContext(ctx)
	if err := reflector.ListAndWatchWithContext(ctx); err != nil {
		failed(ctx, reflector, err)
	}
}

// backoff is that of client-go.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 38, Factor: 2, Jitter: 1}
}

// backoffReset is the time without a failure after which the pauses are short again. It is that of client-go.
const backoffReset = 2 * time.Minute

// start returns nil if the informer was started before.
func (i *Informer) start(log logr.Logger) (*toolscache.Reflector, toolscache.WatchErrorHandlerWithContext) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase.Load() != unstarted {
		return nil, nil
	}
	i.phase.Store(started)
	reflector := toolscache.NewReflectorWithOptions(i.source.listerWatcher(), i.example, &sink{i},
		toolscache.ReflectorOptions{Logger: &log, Name: i.synced.name, ResyncPeriod: i.period})
	reflector.ShouldResync = i.findDue
	i.reflector.Store(reflector)
	return reflector, i.failed
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

// change fails after the start.
func (i *Informer) change(f func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase.Load() != unstarted {
		return errStarted
	}
	f()
	return nil
}

// SetTransform sets what every object passes before it is stored. It fails after the start.
func (i *Informer) SetTransform(f toolscache.TransformFunc) error {
	return i.change(func() { i.transform = f })
}

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext without a context.
func (i *Informer) SetWatchErrorHandler(f toolscache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) { f(r, err) })
}

// SetWatchErrorHandlerWithContext sets what is called when a list or watch fails. It fails after the start.
func (i *Informer) SetWatchErrorHandlerWithContext(f toolscache.WatchErrorHandlerWithContext) error {
	return i.change(func() { i.failed = f })
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

// GetController returns a controller that reports and does nothing.
func (i *Informer) GetController() toolscache.Controller { return controller{i} }

type controller struct{ *Informer }

func (controller) Run(<-chan struct{}) {}

func (controller) RunWithContext(context.Context) {}
