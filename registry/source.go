// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Source adds requests for each event to a controller's queue. One that starts later begins with every known remote, so
// reconcilers need not poll. toRequests must not block. For its panics, see Follow.
func Source[request comparable](r *Registry, toRequests func(Event) []request) source.TypedSource[request] {
	return source.TypedFunc[request](func(
		ctx context.Context, queue workqueue.TypedRateLimitingInterface[request],
	) error {
		r.Follow(ctx, func(event Event) {
			for _, one := range toRequests(event) {
				queue.Add(one)
			}
		})
		return nil
	})
}

// Follow calls f until ctx ends, first for every known remote: EventReady for a Ready one, else EventChanged. It returns at once;
// one goroutine calls f, and only the latest event of each remote waits.
//
// A panic of f ends the hub part of the Registry; without one it is logged, and f continues with the next event.
func (r *Registry) Follow(ctx context.Context, f func(Event)) {
	ctx, cancel := r.within(ctx)
	mailbox := r.events.subscribe()
	for _, info := range r.List() {
		mailbox.put(firstEvent(info), true)
	}
	call := r.contained("function given to Follow", f)
	go func() {
		defer cancel()
		defer r.events.subscribers.Delete(mailbox)
		for {
			select {
			case <-mailbox.filled:
			case <-ctx.Done():
				return
			}
			for _, event := range mailbox.take() {
				call(event)
			}
		}
	}()
}

func firstEvent(info Status) Event {
	kind := EventChanged
	if info.State == state.StateReady {
		kind = EventReady
	}
	return Event{Name: info.Name, Kind: kind, Epoch: info.Epoch}
}

// broadcast never waits for a subscriber.
type broadcast struct{ subscribers sync.Map } // of *mailbox

func (b *broadcast) subscribe() *mailbox {
	m := &mailbox{latest: map[ClusterName]Event{}, filled: make(chan struct{}, 1)}
	b.subscribers.Store(m, nil)
	return m
}

func (b *broadcast) publish(e Event) {
	b.subscribers.Range(func(m, _ any) bool {
		m.(*mailbox).put(e, false)
		return true
	})
}

type mailbox struct {
	mu     sync.Mutex // protects latest
	latest map[ClusterName]Event
	filled chan struct{} // capacity 1
}

// put keeps a newer event instead of the first about a remote.
func (m *mailbox) put(e Event, isFirst bool) {
	m.mu.Lock()
	last, waits := m.latest[e.Name]
	switch {
	case waits && isFirst:
		e = last
	case waits && e.Kind == EventChanged && last.Kind != EventStopped: // must not hide that it was lost or became ready
		e.Kind = last.Kind
	}
	m.latest[e.Name] = e
	m.mu.Unlock()
	select {
	case m.filled <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	var events []Event
	for _, e := range m.latest {
		events = append(events, e)
	}
	clear(m.latest)
	return events
}

// EventKind is the kind of a change of a remote.
type EventKind string

// EventReady: a new epoch lends out its client. EventLost: the epoch that was ready no longer is. EventStopped: the remote is
// forgotten, because it has left the hub, or another replica runs it; Registry.IsElsewhere tells. EventChanged: any other change.
const (
	EventReady   EventKind = "Ready"
	EventLost    EventKind = "Lost"
	EventStopped EventKind = "Stopped"
	EventChanged EventKind = "Changed"
)

// Event tells that a remote changed. The latest wins, so a slow subscriber costs a map entry for each remote.
type Event struct {
	Name  ClusterName
	Kind  EventKind
	Epoch int64
}
