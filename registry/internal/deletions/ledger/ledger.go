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

// Key identifies the deletes that one limit applies to.
type Key struct {
	Module   string
	Resource schema.GroupResource
	// Target is the remote; empty for the hub.
	Target state.ClusterName
	// Cause is the thing that asks for the deletes, or empty.
	Cause string
}

// ofAll returns the key of the deletes of all causes; the same key if there is no cause.
func (k Key) ofAll() Key {
	if k.Cause != "" {
		k.Cause = holds.AllCauses
	}
	return k
}

// places returns the keys that a delete counts for.
func (k Key) places() []Key { return slices.Compact([]Key{k, k.ofAll()}) }

func (k Key) owner() owner { return owner{k.Module, k.Resource, k.Cause} }

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
	// Replica is the Replica of a Hold of the hub or of the fleet that begins with the request, Counted how many deletes before it are
	// counted elsewhere, and Note its Note.
	Replica string
	Counted int
	Note    string
}

// HeldError refuses a delete.
type HeldError struct {
	// Hold is the Hold in force.
	Hold Hold
}

// Error names the Hold, and its Note or what ends it. The text stays the same during the Hold, because reconcilers write it into the
// conditions of their objects.
func (e *HeldError) Error() string {
	end := fmt.Sprintf("the hold ends when the module asks for none of them for %s", Window)
	return fmt.Sprintf("deletes are held (%s): %s; %s", e.Hold.ID, e.Hold.done(), cmp.Or(e.Hold.Note, end))
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

// owner is a module, a resource that it deletes, and the cause.
type owner struct {
	module   string
	resource schema.GroupResource
	cause    string
}

// force is where a Hold is in force: in one target, or in all of them.
type force struct {
	owner
	fleet  bool
	target state.ClusterName
}

func forceOf(h *Hold) force {
	f := force{owner: owner{h.Module, h.Resource, h.Cause}, fleet: h.Fleet}
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
	name   string
	uid    types.UID // "" while it is not known
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
	_, w := l.at(r.Key, now)
	w.owns(r.Owned)
	if w.isGone(string(r.UID)) {
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
		return l.count(r, h, now), store, nil
	}
	for _, b := range l.bounds(r, now) {
		if h := b.begin(r, now); h != nil {
			l.add(h)
			after := h.Hold
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

// Left returns how many objects Admit would admit now. It is 0 while a Hold is in force whose allowance is used.
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

// Repeats reports whether a delete of an object of this name counts already that may still be there.
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

// Answered notes what the answer tells of an object whose UID was not known: its UID, or "", and whether it may still be there. It
// reports whether a delete of the object counts already, so that the caller takes this one back.
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

// Refund takes the delete back, because it was not sent, the API server has refused it, the object did not exist, or its delete
// counts already.
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

// Created counts an object that a module has created. It pays for deletes of any cause if it has one, and for those without a cause
// otherwise. No object pays for one whose content is lost.
func (l *Ledger) Created(k Key, now time.Time) {
	if hasContent(k) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f, w := l.at(k.ofAll(), now)
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

// Await keeps a Hold in force for another Window, because the module cannot ask: its app does not run.
func (l *Ledger) Await(id string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holds[id]; h != nil {
		h.Asked = now
	}
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

// at returns the window of a key now, and its fleet.
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
