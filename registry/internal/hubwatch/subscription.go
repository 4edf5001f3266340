// SPDX-License-Identifier: Apache-2.0

package hubwatch

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Subscription is to the objects of some keys, safe for many goroutines. After Close it has no objects, and Get and
// List return ErrEnded.
type Subscription struct {
	entry *entry
	want  Want
	keys  map[string]struct{} // never changes

	close sync.Once
	done  chan struct{} // closed by Close, under mu

	mu        sync.Mutex // protects the fields; held for a few instructions
	listeners map[*Listener]struct{}
	graves    graves
}

func newSubscription(e *entry, w Want) *Subscription {
	s := &Subscription{
		entry: e, want: w, keys: map[string]struct{}{}, done: make(chan struct{}), listeners: map[*Listener]struct{}{},
	}
	keys := w.Keys
	if w.Route.By == All {
		keys = []string{keyOfAll}
	}
	for _, key := range keys {
		if key != "" {
			s.keys[key] = struct{}{}
		}
	}
	return s
}

func (s *Subscription) has(key string) bool {
	_, has := s.keys[key]
	return has
}

func (s *Subscription) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Close ends the subscription, and its informer if it is the last.
func (s *Subscription) Close() {
	s.close.Do(func() {
		s.mu.Lock()
		close(s.done)
		s.listeners, s.graves = nil, graves{}
		s.mu.Unlock()
		s.entry.unsubscribe(s)
		s.entry.pool.release(s.entry)
	})
}

// Type returns the name of the type of the objects, as Want.Blocked receives it.
func (s *Subscription) Type() string { return s.entry.of.Name() + inHub }

// Synced returns a channel that is closed when the subscription has its initial objects.
func (s *Subscription) Synced() <-chan struct{} { return s.entry.synced }

// Blind returns the kind of the objects if the informer has not synced, or cannot list and watch; empty otherwise.
func (s *Subscription) Blind(now time.Time) string {
	if s.isClosed() || s.entry.isSynced() && s.entry.cache.Blind(user, now) == "" {
		return ""
	}
	return s.entry.of.Kind.Kind + " in the hub"
}

// changed: had says that the object belonged to it before.
func (s *Subscription) changed(c change, had bool) {
	before := c.before
	if !had {
		before = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.graves.open(c.key)
	for l := range s.listeners {
		l.note(c.key, before)
	}
}

func (s *Subscription) left(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return
	}
	s.graves.bury(c.key, Tombstone{Object: c.last, Seen: c.seen}, time.Now())
	for l := range s.listeners {
		l.note(c.key, c.before)
	}
}

// Listener collects the objects that have changed, until they are taken. Changes of one object are one.
type Listener struct {
	of     *Subscription
	signal chan struct{} // has a value when there is something to take

	mu    sync.Mutex // protects the field; held for a few instructions
	dirty map[client.ObjectKey]client.Object
}

// Listen returns a Listener that has all objects to take. The caller must close it.
func (s *Subscription) Listen() *Listener {
	l := &Listener{of: s, signal: make(chan struct{}, 1), dirty: map[client.ObjectKey]client.Object{}}
	s.entry.mu.RLock() // Between the objects that there are and the first change, no change is missed.
	defer s.entry.mu.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return l
	}
	s.listeners[l] = struct{}{}
	if ix := s.entry.routes[s.want.Route]; ix != nil {
		for key := range s.keys {
			for object := range ix.objects[key] {
				l.note(object, nil)
			}
		}
	}
	return l
}

// Close ends the Listener.
func (l *Listener) Close() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	delete(l.of.listeners, l)
}

func (l *Listener) note(key client.ObjectKey, before client.Object) {
	l.mu.Lock()
	if _, noted := l.dirty[key]; !noted {
		l.dirty[key] = before
	}
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Changed returns a channel that has a value when there are changes to take.
func (l *Listener) Changed() <-chan struct{} { return l.signal }

// Change is a change since the object was last taken. Callers must not change the objects, which all apps share.
type Change struct {
	Key client.ObjectKey
	// Before is what the Listener knows, After the state of now; nil for none.
	Before, After client.Object
}

// Take returns the changes that were collected.
func (l *Listener) Take() []Change {
	e := l.of.entry
	e.mu.RLock() // No object changes between the notes and the states, so the next Before is this After.
	defer e.mu.RUnlock()
	l.mu.Lock()
	taken := l.dirty
	l.dirty = map[client.ObjectKey]client.Object{}
	l.mu.Unlock()
	if len(taken) == 0 || l.of.isClosed() {
		return nil
	}
	changes := make([]Change, 0, len(taken))
	for key, before := range taken {
		changes = append(changes, Change{Key: key, Before: before, After: l.of.find(key)})
	}
	return changes
}
