// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Key identifies the deletes that one limit applies to.
type Key struct {
	Module   string
	Resource schema.GroupResource
	// Target is the remote; empty for the hub.
	Target state.ClusterName
}

// Request is a delete that a module is about to send.
type Request struct {
	Key
	// Name names the object, with its namespace if it has one.
	Name string
	// UID is the UID of the object, if the request has it as a precondition. The delete of an object counts once.
	UID types.UID
	// Objects is how many objects the request deletes: 1, or more for a collection. 0 counts as 1.
	Objects int
	// Limits are the limits of the module for the resource.
	Limits Limits
	// Owned is how many objects of the resource the module owns in the target, before this delete or before the first of
	// many, or 0 if it does not know.
	Owned int
	// Replica is the Replica of a Hold of the hub or of the fleet that begins with the request.
	Replica string
}

// HeldError refuses a delete.
type HeldError struct {
	// Hold is the Hold in force.
	Hold Hold
}

// Error names the Hold and what ends it. The text stays the same during the Hold, because reconcilers write it into the
// conditions of their objects.
func (e *HeldError) Error() string {
	return fmt.Sprintf("deletes are held (%s): %s; the hold ends when the module asks for none of them for %s",
		e.Hold.ID, e.Hold.done(), Window)
}

// Ledger counts the deletes and creates of modules and keeps their Holds. All methods may be called from any goroutine and
// return at once.
type Ledger struct {
	mu     sync.Mutex // protects the fields
	began  time.Time  // of the first slot
	fleets map[owner]*fleet
	holds  map[string]*hold // by id
	forces map[force]*hold  // the same Holds
}

// owner is a module and a resource that it deletes.
type owner struct {
	module   string
	resource schema.GroupResource
}

// force is where a Hold is in force: in one target, or in all of them.
type force struct {
	owner
	fleet  bool
	target state.ClusterName
}

func forceOf(h *Hold) force {
	f := force{owner: owner{h.Module, h.Resource}, fleet: h.Fleet}
	if !h.Fleet {
		f.target = h.Target
	}
	return f
}

// New returns a Ledger that has counted nothing.
func New() *Ledger {
	return &Ledger{fleets: map[owner]*fleet{}, holds: map[string]*hold{}, forces: map[force]*hold{}}
}

// Restore adds Holds that were in force in another Ledger, unless there is a Hold in their place, and returns those that it
// has added. They stay in force for a Window at least.
func (l *Ledger) Restore(holds []Hold, now time.Time) (added []Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range holds {
		if l.holds[h.ID] != nil || l.forces[forceOf(&h)] != nil {
			continue
		}
		h.Asked, h.Spent = now, h.Used
		one := &hold{Hold: h, asked: map[string]int{}}
		for _, name := range h.Names {
			one.asked[name] = 1
		}
		l.add(one)
		added = append(added, h)
	}
	return added
}

func (l *Ledger) add(h *hold) { l.holds[h.ID], l.forces[forceOf(&h.Hold)] = h, h }

func (l *Ledger) remove(h *hold) {
	delete(l.holds, h.ID)
	delete(l.forces, forceOf(&h.Hold))
}

// Ticket is a delete that is counted and may be sent.
type Ticket struct {
	ledger *Ledger
	key    Key
	uid    types.UID
	slot   int64
	count  int   // 0 for an object whose delete counts already
	hold   *hold // whose allowance it uses; nil for none
}

// Admit counts a delete that a module is about to send, or refuses it with a *HeldError. store is the Hold that has to be
// stored before the caller sends the delete or returns the error; nil for none.
func (l *Ledger) Admit(r Request, now time.Time) (t *Ticket, store *Hold, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Objects = max(r.Objects, 1)
	f := l.fleet(r.Key)
	w := f.in(string(r.Target), l.slotOf(now))
	owned := w.owns(r.Owned)
	if w.isGone(r.UID) {
		return &Ticket{ledger: l}, nil, nil
	}
	if h := l.holdFor(r.Key); h != nil {
		allowed, grown := h.spend(r.Name, r.Objects)
		if !allowed {
			h.ask(r.Name, r.Objects, now)
			return nil, nil, &HeldError{h.Hold}
		}
		if grown {
			after := h.Hold
			store = &after
		}
		return l.count(f, w, r, h), store, nil
	}
	loss := w.loss()
	overFleet := f.sum+r.Objects > r.Limits.PerFleet
	if loss+r.Objects <= r.Limits.target(owned) && !overFleet {
		return l.count(f, w, r, nil), nil, nil
	}
	h := &hold{asked: map[string]int{}, Hold: Hold{
		ID: newID(r.Module, r.Resource.Resource), Module: r.Module, Resource: r.Resource, Target: r.Target, Since: now, Done: loss,
	}}
	if overFleet {
		h.Fleet, h.Done = true, f.sum
	}
	if !h.IsOfTarget() {
		h.Replica = r.Replica
	}
	h.ask(r.Name, r.Objects, now)
	l.add(h)
	after := h.Hold
	return nil, &after, &HeldError{after}
}

// Left returns how many objects Admit would admit now. It is 0 while a Hold is in force whose allowance is used.
func (l *Ledger) Left(r Request, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holdFor(r.Key); h != nil {
		return h.Granted - h.Spent
	}
	f := l.fleet(r.Key)
	w := f.in(string(r.Target), l.slotOf(now))
	loss := w.loss()
	return max(min(r.Limits.target(w.owns(r.Owned))-loss, r.Limits.PerFleet-f.sum), 0)
}

func (l *Ledger) count(f *fleet, w *window, r Request, h *hold) *Ticket {
	f.change(w, func(i int) { w.deleted[i] += r.Objects })
	w.note(r.UID)
	return &Ticket{ledger: l, key: r.Key, uid: r.UID, slot: w.latest, count: r.Objects, hold: h}
}

// Refund takes the delete back, because it was not sent, the API server has refused it or the object did not exist.
func (t *Ticket) Refund(now time.Time) {
	if t.count == 0 {
		return
	}
	l := t.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fleet(t.key)
	w := f.in(string(t.key.Target), l.slotOf(now))
	delete(w.gone, t.uid)
	if w.latest-t.slot <= slots {
		i := t.slot % (slots + 1)
		f.change(w, func(int) { w.deleted[i] = max(w.deleted[i]-t.count, 0) })
	}
	if t.hold != nil {
		t.hold.Spent -= t.count
	}
}

// Unstored takes the delete back because the Hold, whose allowance it uses, could not be stored. The next delete has to store
// it.
func (t *Ticket) Unstored(now time.Time) {
	t.Refund(now)
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	if t.hold != nil {
		t.hold.Used = min(t.hold.Used, t.hold.Spent)
	}
}

// Created counts an object that a module has created.
func (l *Ledger) Created(k Key, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fleet(k)
	w := f.in(string(k.Target), l.slotOf(now))
	f.change(w, func(i int) { w.created[i]++ })
}

// Allow raises the number of deletes that a Hold allows in all, or allows all that it knows of if the number is 0. It
// returns the Hold if that has changed it. An id that is not in force has no effect. Neither has a smaller number than
// before: it is an older value of an annotation, or the value of another annotation.
func (l *Ledger) Allow(id string, objects int) (changed *Hold) {
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
	after := h.Hold
	return &after
}

// Expire ends the Holds whose module has asked for no held delete within a Window, and returns them. It also forgets what
// is no longer counted.
func (l *Ledger) Expire(now time.Time) (ended []Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		if now.Sub(h.Asked) >= Window {
			ended = append(ended, h.Hold)
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
	slices.SortFunc(ended, func(a, b Hold) int { return strings.Compare(a.ID, b.ID) })
	return ended
}

// Forget ends the Holds in a target, because the remote was removed, and returns them. The deletes there still count for the
// fleet.
func (l *Ledger) Forget(target state.ClusterName) (ended []Hold) {
	return l.Drop(func(h *Hold) bool { return h.IsOfTarget() && h.Target == target })
}

// Drop removes the Holds for which a function returns true, and returns them. Their deletes still count. The function must not
// use the Ledger.
func (l *Ledger) Drop(which func(*Hold) bool) (dropped []Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		if which(&h.Hold) {
			dropped = append(dropped, h.Hold)
			l.remove(h)
		}
	}
	return dropped
}

// HasInPlaceOf reports whether a Hold is in force in the place of another: of the same module and resource in the same target,
// or of the fleet.
func (l *Ledger) HasInPlaceOf(h *Hold) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forces[forceOf(h)] != nil
}

// Hold returns the Hold with an id, if it is in force.
func (l *Ledger) Hold(id string) (Hold, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.holds[id]
	if !ok {
		return Hold{}, false
	}
	return h.Hold, true
}

// Holds returns the Holds in force, sorted by id.
func (l *Ledger) Holds() []Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Hold, 0, len(l.holds))
	for _, h := range l.holds {
		all = append(all, h.Hold)
	}
	slices.SortFunc(all, func(a, b Hold) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (l *Ledger) fleet(k Key) *fleet {
	of := owner{k.Module, k.Resource}
	f := l.fleets[of]
	if f == nil {
		f = &fleet{windows: map[string]*window{}}
		l.fleets[of] = f
	}
	return f
}

func (l *Ledger) holdFor(k Key) *hold {
	f := force{owner: owner{k.Module, k.Resource}, fleet: true}
	if h := l.forces[f]; h != nil {
		return h
	}
	f.fleet, f.target = false, k.Target
	return l.forces[f]
}
