// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// minResync is that of client-go.
const minResync = time.Second

// handler is also the registration. Its changes wait in memory without a limit, so one with an Owner that does not
// return while more arrive fails its module (see budget.findStuck).
type handler struct {
	toolscache.ResourceEventHandler
	owner    Owner // nil for none
	informer *Informer
	synced   *signal

	// The lock of the informer protects these.
	period time.Duration // 0 for none
	next   time.Time
	due    bool // at the last check

	mu      sync.Mutex // protects the fields below; held for a few instructions
	waiting []change
	busy    bool // a goroutine delivers
	ended   bool
	calls   uint64    // how often a call or a goroutine has begun
	found   uint64    // calls at the last check for stuck handlers; 0 if it was not busy
	since   time.Time // when a check first found that
}

type change struct {
	kind          kind
	before, after any
	initial       bool // an added object is one of the first list
}

type kind int

const (
	added kind = iota
	updated
	deleted
	complete // the objects of the first list have been delivered
)

// AddEventHandler adds a handler with the informer's time between resyncs.
func (i *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with a time between resyncs.
func (i *Informer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, period time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler. It returns an error after the end of the informer.
func (i *Informer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	one := &handler{ResourceEventHandler: h, informer: i}
	if by, ok := h.(owned); ok {
		one.ResourceEventHandler, one.owner = by.ResourceEventHandler, by.owner
	}
	one.synced = newSignal(fmt.Sprintf("handler %T of the %s", one.ResourceEventHandler, i.synced.name))
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase.Load() == stopped {
		return nil, errStopped
	}
	one.period = i.resyncPeriod(ptr.Deref(o.ResyncPeriod, i.resync))
	one.next = time.Now().Add(one.period)
	i.handlers[one] = true
	i.budget.handles(one, true)
	if !i.synced.happened() {
		return one, nil
	}
	objects := i.store.List()
	changes := make([]change, 0, len(objects)+1)
	for _, obj := range objects {
		changes = append(changes, change{kind: added, after: obj, initial: true})
	}
	one.add(append(changes, change{kind: complete}))
	return one, nil
}

// resyncPeriod needs the lock.
func (i *Informer) resyncPeriod(asked time.Duration) time.Duration {
	if asked == 0 || i.period == 0 {
		return 0
	}
	asked = max(asked, minResync)
	if i.phase.Load() == unstarted {
		i.period = min(i.period, asked)
	}
	return max(asked, i.period)
}

func (i *Informer) isHandled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.handlers) > 0
}

// tellRefused calls the method OnRefused of handlers that have it.
func (i *Informer) tellRefused() {
	i.mu.Lock()
	all := slices.Collect(maps.Keys(i.handlers))
	i.mu.Unlock()
	for _, h := range all {
		if one, ok := h.ResourceEventHandler.(interface{ OnRefused() }); ok {
			one.OnRefused()
		}
	}
}

func (i *Informer) findDue() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, found := time.Now(), false
	for h := range i.handlers {
		h.due = h.period > 0 && !now.Before(h.next)
		if h.due {
			h.next, found = now.Add(h.period), true
		}
	}
	return found
}

// RemoveEventHandler removes a handler. Waiting changes are not delivered; a call may continue.
func (i *Informer) RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error {
	h, ok := registration.(*handler)
	if !ok {
		return fmt.Errorf("%T is not a registration of an informer", registration)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.handlers[h] {
		delete(i.handlers, h)
		h.end()
	}
	return nil
}

// tell needs the lock.
func (i *Informer) tell(changes ...change) {
	for h := range i.handlers {
		h.add(changes)
	}
}

func (h *handler) HasSynced() bool { return h.synced.happened() }

// HasSyncedChecker is also done when the handler was removed or the informer has ended.
func (h *handler) HasSyncedChecker() toolscache.DoneChecker { return h.synced }

// add starts a goroutine that delivers, unless there is one.
func (h *handler) add(changes []change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || len(changes) == 0 {
		return
	}
	h.waiting = append(h.waiting, changes...)
	if !h.busy {
		h.busy = true
		h.calls++
		h.informer.running.Go(h.deliver)
	}
}

func (h *handler) end() {
	h.informer.budget.handles(h, false)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended, h.waiting = true, nil
	h.synced.end()
}

func (h *handler) deliver() {
	for changes := h.take(); changes != nil; changes = h.take() {
		for n := range changes {
			if !h.begin() {
				return
			}
			h.call(&changes[n])
			changes[n] = change{} // the objects may be gone from the store
		}
	}
}

// take ends the goroutine if it returns nil.
func (h *handler) take() []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	changes := h.waiting
	h.waiting, h.busy = nil, changes != nil
	return changes
}

// begin returns false after the end of the handler.
func (h *handler) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	return !h.ended
}

// call does nothing if the app is about to end. After a panic the next changes are delivered.
func (h *handler) call(c *change) {
	defer utilruntime.HandleCrash()
	if c.kind == complete {
		h.synced.raise()
		return
	}
	if h.owner != nil && h.owner.IsBroken() {
		return
	}
	call(h.owner, "event handler", func() {
		switch c.kind {
		case added:
			h.OnAdd(c.after, c.initial)
		case updated:
			h.OnUpdate(c.before, c.after)
		case deleted:
			h.OnDelete(c.before)
		}
	})
}

// stuckFor is how long the handler is known to be in the same call.
func (h *handler) stuckFor(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.busy:
		h.found = 0
		return 0
	case h.calls != h.found:
		h.found, h.since = h.calls, now
	}
	return now.Sub(h.since)
}

// signal happens once, or never. It is client-go's DoneChecker.
type signal struct {
	name   string
	raised atomic.Bool
	once   sync.Once
	done   chan struct{}
}

func newSignal(name string) *signal { return &signal{name: name, done: make(chan struct{})} }

func (s *signal) raise() {
	s.once.Do(func() {
		s.raised.Store(true)
		close(s.done)
	})
}

func (s *signal) end() { s.once.Do(func() { close(s.done) }) }

func (s *signal) happened() bool { return s.raised.Load() }

func (s *signal) Name() string { return s.name }

func (s *signal) Done() <-chan struct{} { return s.done }
