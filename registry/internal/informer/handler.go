// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// minResync is that of client-go.
const minResync = time.Second

// handler is also the registration.
type handler struct {
	toolscache.ResourceEventHandler
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
	one := &handler{ResourceEventHandler: h, informer: i, synced: newSignal(fmt.Sprintf("handler %T of the %s", h, i.synced.name))}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase.Load() == stopped {
		return nil, errStopped
	}
	one.period = i.resyncPeriod(ptr.Deref(o.ResyncPeriod, i.resync))
	one.next = time.Now().Add(one.period)
	i.handlers[one] = true
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
		h.informer.running.Go(h.deliver)
	}
}

func (h *handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended, h.waiting = true, nil
	h.synced.end()
}

func (h *handler) deliver() {
	for changes := h.take(); changes != nil; changes = h.take() {
		for n := range changes {
			if !h.call(&changes[n]) {
				return
			}
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

// call returns false after the end of the handler.
func (h *handler) call(c *change) (ok bool) {
	h.mu.Lock()
	ended := h.ended
	h.mu.Unlock()
	if ended {
		return false
	}
	ok = true // also after a panic: the next changes are delivered
	defer utilruntime.HandleCrash()
	switch c.kind {
	case added:
		h.OnAdd(c.after, c.initial)
	case updated:
		h.OnUpdate(c.before, c.after)
	case deleted:
		h.OnDelete(c.before)
	case complete:
		h.synced.raise()
	}
	return ok
}
