// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Key is what one limit applies to.
type Key struct {
	Module   string
	Resource schema.GroupResource
	Target   state.ClusterName
	// Cause asks for the deletes; may be empty.
	Cause string
}

func (k Key) ofAll() Key {
	if k.Cause != "" {
		k.Cause = holds.AllCauses
	}
	return k
}

func (k Key) places() []Key { return slices.Compact([]Key{k, k.ofAll()}) }

func (k Key) owner() owner { return owner{k.Module, k.Resource, k.Cause} }

// Request is a delete that a module is about to send.
type Request struct {
	Key
	// Name has the namespace.
	Name string
	// From is the target whose app asks; empty for none.
	From state.ClusterName
	// UID is the request's precondition, if any. The delete of an object counts once.
	UID types.UID
	// Objects is more than 1 for a collection. 0 counts as 1.
	Objects int
	Limits  Limits
	// Owned is how many objects the module owns in the target, before this delete or before the first of many; 0 if
	// unknown.
	Owned int
	// Replica and Note are those of a Hold that begins, Counted how many deletes before it are counted elsewhere.
	Replica string
	Counted int
	Note    string
}

// HeldError refuses a delete.
type HeldError struct {
	Hold Held
}

// Error stays the same during the Hold, because reconcilers write it into conditions.
func (e *HeldError) Error() string {
	end := fmt.Sprintf("the hold ends when the module asks for none of them for %s", Window)
	return fmt.Sprintf("deletes are held (%s): %s; %s", e.Hold.ID, e.Hold.done(), cmp.Or(e.Hold.Note, end))
}

// Ledger counts deletes and creates and keeps the Holds. Its methods are safe for many goroutines and return at once.
type Ledger struct {
	mu     sync.Mutex // protects the fields
	began  time.Time  // of the first slot
	fleets map[owner]*fleet
	holds  map[string]*hold // by id
	forces map[force]*hold  // the same Holds
}

type owner struct {
	module   string
	resource schema.GroupResource
	cause    string
}

// force is one target, or all of them.
type force struct {
	owner
	fleet  bool
	target state.ClusterName
}

func forceOf(h *Held) force {
	f := force{owner: owner{h.Module, h.Kind(), h.Cause}, fleet: h.Fleet}
	if !h.Fleet {
		f.target = h.Target()
	}
	return f
}

// New returns an empty Ledger.
func New() *Ledger {
	return &Ledger{fleets: map[owner]*fleet{}, holds: map[string]*hold{}, forces: map[force]*hold{}}
}

// Restore adds Holds of another Ledger, unless there is one in their place, and returns the added ones. They stay in
// force for a Window at least.
func (l *Ledger) Restore(holds []Held, now time.Time) (added []Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range holds {
		if l.holds[h.ID] != nil || l.forces[forceOf(&h)] != nil {
			continue
		}
		h.Asked, h.Spent = now, h.Used
		one := &hold{Held: h, asked: map[string]int{}, from: map[state.ClusterName]time.Time{h.Target(): now}}
		for _, name := range h.Names {
			one.asked[name] = 1
		}
		l.add(one)
		added = append(added, h)
	}
	return added
}

func (l *Ledger) add(h *hold) { l.holds[h.ID], l.forces[forceOf(&h.Held)] = h, h }

func (l *Ledger) remove(h *hold) {
	delete(l.holds, h.ID)
	delete(l.forces, forceOf(&h.Held))
}

// Ticket is a delete that is counted and may be sent.
type Ticket struct {
	ledger *Ledger
	key    Key
	name   string
	uid    types.UID // "" while it is not known
	slot   int64
	count  int   // 0 for an object whose delete counts already
	hold   *hold // whose allowance it uses; nil for none
}

// Admit counts a delete, or refuses it with a *HeldError. The caller must save store, unless nil, before it sends the
// delete or returns the error.
func (l *Ledger) Admit(r Request, now time.Time) (t *Ticket, store *Held, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Objects = max(r.Objects, 1)
	_, w := l.at(r.Key, now)
	w.owns(r.Owned)
	if w.isGone(string(r.UID)) {
		return &Ticket{ledger: l}, nil, nil
	}
	if h := l.holdFor(r.Key); h != nil {
		allowed, grown := h.spend(r.Name, r.Objects)
		if !allowed {
			h.ask(r, now)
			return nil, nil, &HeldError{h.Held}
		}
		if grown {
			after := h.Held
			store = &after
		}
		return l.count(r, h, now), store, nil
	}
	for _, b := range l.bounds(r, now) {
		if h := b.begin(r, now); h != nil {
			l.add(h)
			after := h.Held
			return nil, &after, &HeldError{after}
		}
	}
	return l.count(r, nil, now), nil, nil
}

// IsHeld reports whether a Hold is in force for a key.
func (l *Ledger) IsHeld(k Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holdFor(k) != nil
}

// Left returns how many objects Admit would admit now; 0 while a Hold without allowance is in force.
func (l *Ledger) Left(r Request, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holdFor(r.Key); h != nil {
		return h.Granted - h.Spent
	}
	left := math.MaxInt
	for _, b := range l.bounds(r, now) {
		left = min(left, b.left())
	}
	return max(left, 0)
}

// Repeats reports whether a delete of this name counts already whose object may still be there.
func (l *Ledger) Repeats(r Request, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, w := l.at(r.Key, now)
	return w.isGone(nameKey(r.Name))
}

func (l *Ledger) count(r Request, h *hold, now time.Time) *Ticket {
	for _, k := range r.places() {
		f, w := l.at(k, now)
		f.change(w, func(i int) { w.deleted[i] += r.Objects })
	}
	_, w := l.at(r.Key, now)
	w.note(string(r.UID))
	return &Ticket{ledger: l, key: r.Key, name: r.Name, uid: r.UID, slot: w.latest, count: r.Objects, hold: h}
}

// Answered notes the UID that the answer tells, or "", and whether the object may still be there. If it reports that a
// delete of the object counts already, the caller must take this one back.
func (t *Ticket) Answered(uid types.UID, isLeft bool, now time.Time) (isRepeated bool) {
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	_, w := t.ledger.at(t.key, now)
	if isLeft {
		w.note(nameKey(t.name))
	}
	if w.isGone(string(uid)) {
		return true
	}
	w.note(string(uid))
	t.uid = uid
	return false
}

// Refund takes the delete back: it was not sent, was refused, found no object, or counts already.
func (t *Ticket) Refund(now time.Time) {
	if t.count == 0 {
		return
	}
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	for _, k := range t.key.places() {
		f, w := t.ledger.at(k, now)
		delete(w.gone, string(t.uid))
		if w.latest-t.slot <= slots {
			i := t.slot % (slots + 1)
			f.change(w, func(int) { w.deleted[i] = max(w.deleted[i]-t.count, 0) })
		}
	}
	if t.hold != nil {
		t.hold.Spent -= t.count
	}
}

// Unstored takes the delete back because its Hold could not be stored. The next delete must store it.
func (t *Ticket) Unstored(now time.Time) {
	t.Refund(now)
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if t.hold != nil {
		t.hold.Used = min(t.hold.Used, t.hold.Spent)
	}
}

// Created counts a created object. With a cause it pays for deletes of any cause, else for those without. Nothing pays
// for an object whose content is lost.
func (l *Ledger) Created(k Key, now time.Time) {
	if hasContent(k) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, w := l.at(k.ofAll(), now)
	f.change(w, func(i int) { w.created[i]++ })
}

// Allow raises the number of deletes that a Hold allows in all; 0 allows all that it knows of. It returns the Hold if
// that changed it. An unknown id has no effect, nor has a smaller number, which is an older annotation or another one.
func (l *Ledger) Allow(id string, objects int) (changed *Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.holds[id]
	if !ok {
		return nil
	}
	if objects <= 0 {
		objects = h.Spent + h.More
	}
	if objects <= h.Granted {
		return nil
	}
	h.Granted = objects
	after := h.Held
	return &after
}

// Expire ends and returns the Holds whose module has not asked within a Window, and forgets what no longer counts.
func (l *Ledger) Expire(now time.Time) (ended []Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		if now.Sub(h.Asked) >= Window {
			ended = append(ended, h.Held)
			l.remove(h)
		}
	}
	for of, f := range l.fleets {
		f.in("", l.slotOf(now))
		maps.DeleteFunc(f.windows, func(_ string, w *window) bool { return w.isEmpty() })
		if len(f.windows) == 0 {
			delete(l.fleets, of)
		}
	}
	slices.SortFunc(ended, func(a, b Held) int { return strings.Compare(a.ID, b.ID) })
	return ended
}

// Forget ends and returns the Holds in a target, or, with the empty name, of the hub and the fleet. Their deletes still count.
func (l *Ledger) Forget(target state.ClusterName) (ended []Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		if h.IsOfTarget() == (target != "") && (target == "" || h.Target() == target) {
			ended = append(ended, h.Held)
			l.remove(h)
		}
	}
	return ended
}

// HasInPlaceOf reports whether a Hold of the same module and resource is in force in the same target, or in the fleet.
func (l *Ledger) HasInPlaceOf(h *Held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forces[forceOf(h)] != nil
}

// Holds returns the Holds in force, sorted by id.
func (l *Ledger) Holds() []Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Held, 0, len(l.holds))
	for _, h := range l.holds {
		all = append(all, h.Held)
	}
	slices.SortFunc(all, func(a, b Held) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (l *Ledger) at(k Key, now time.Time) (*fleet, *window) {
	f := l.fleets[k.owner()]
	if f == nil {
		f = &fleet{windows: map[string]*window{}}
		l.fleets[k.owner()] = f
	}
	return f, f.in(string(k.Target), l.slotOf(now))
}

func (l *Ledger) holdFor(k Key) *hold {
	in := func(k Key) *hold {
		return cmp.Or(l.forces[force{owner: k.owner(), fleet: true}], l.forces[force{owner: k.owner(), target: k.Target}])
	}
	return cmp.Or(in(k.ofAll()), in(k))
}
