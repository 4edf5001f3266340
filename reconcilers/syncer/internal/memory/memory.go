// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/json"
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Memory is what a controller knows of its copies, from downstream events and its own writes. It is lost with the
// process: the copies' marks have the same.
type Memory struct {
	fights *utilcache.LRUExpireCache // of *fight, by upstream object
	told   *utilcache.LRUExpireCache // names of events of the last hour
	seed   maphash.Seed

	mu      sync.Mutex                        // protects the fields; held for a few instructions
	all     map[types.NamespacedName]*Object  // by upstream object
	blocked map[types.NamespacedName]waitings // by downstream name
	copies  int
}

type waitings = sets.Set[types.NamespacedName]

// New returns an empty Memory.
func New() *Memory {
	return &Memory{
		fights: utilcache.NewLRUExpireCache(maxFights), told: utilcache.NewLRUExpireCache(maxTold), seed: maphash.MakeSeed(),
		all: map[types.NamespacedName]*Object{}, blocked: map[types.NamespacedName]waitings{},
	}
}

// Object is what is known of an upstream object and its copy.
type Object struct {
	Copy    types.NamespacedName // the name of the copy, if it is known
	Source  types.NamespacedName // the downstream object for which an UpSyncer makes the upstream object
	Lost    types.UID            // of the original whose copy another client has deleted
	Deletes types.UID            // of the copy that we delete
	Lives   types.UID            // of a copy seen without a deletionTimestamp, if deletions are propagated
	Refused int                  // writes in a row
	Wrote   Write

	missed time.Time // since when the cache lacks the copy without an event
	gone   bool      // since the last write began
	former sets.Set[types.NamespacedName]
}

// Write is the last write for one object, as digests.
type Write struct {
	Desired  uint64   // what was sent
	Made     Revision // what the write made of the copy
	Answer   uint64   // what the API server made of it; 0 if it has all that was sent
	Left     uint64   // what it left beside that; 0 for nothing
	Status   StatusWrite
	Replaced Revision // Replaced at the time At: a cache that still has this is behind
	At       time.Time
}

// StatusWrite is the last write of the status upstream.
type StatusWrite struct {
	Sent         uint64         // digest
	Declared     map[string]any // the fields that the upstream schema has, if it lacks some
	Before, Made Revision       // Before was replaced by Made, at the time At
	At           time.Time
	Due          time.Time // the turn of the next write, if there is one
	Kept         uint64    // the digest of the upstream status that a write did not change; otherwise 0
}

// Revision is a resourceVersion, or NoCopy.
type Revision string

// NoCopy is the Revision of a missing copy.
const NoCopy Revision = "none"

// StaleFor is how long a cache may be behind. Later it is right: a copy that was deleted in a moment may never
// appear.
const StaleFor = time.Second

// Of returns what is known of an upstream object.
func (m *Memory) Of(up types.NamespacedName) Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.all[up]; one != nil {
		return *one
	}
	return Object{}
}

// Change changes what is known, until Forget.
func (m *Memory) Change(up types.NamespacedName, change func(*Object)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.all[up]
	if one == nil {
		one = &Object{}
		m.all[up] = one
	}
	m.copies -= one.copies()
	change(one)
	m.copies += one.copies()
}

func (o *Object) copies() int {
	n := len(o.former)
	if o.Copy.Name != "" {
		n++
	}
	return n
}

// Count returns the number of copies, with those at earlier addresses.
func (m *Memory) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.copies
}

// Exists notes a copy; alive is its UID if it has no deletionTimestamp, and deletions are propagated.
func (m *Memory) Exists(up, down types.NamespacedName, alive types.UID) {
	m.Change(up, func(o *Object) {
		o.Copy, o.Lost = down, ""
		if alive != "" {
			o.Lives, o.missed = alive, time.Time{}
		}
	})
}

// Gone notes that a copy has gone. uid is the original's if another client has deleted it, else empty.
func (m *Memory) Gone(up types.NamespacedName, uid types.UID) {
	m.Change(up, func(o *Object) {
		o.Copy, o.Wrote, o.Lives, o.gone = types.NamespacedName{}, Write{}, "", true
		if uid != "" {
			o.Lost = uid
		}
	})
}

// Begin notes that a copy is being written, until End.
func (m *Memory) Begin(up types.NamespacedName) { m.Change(up, func(o *Object) { o.gone = false }) }

// End reports whether the copy exists as far as events tell: its deletion may be known before the answer. made is
// false if nothing was written.
func (m *Memory) End(up, down types.NamespacedName, made bool) (exists bool) {
	m.Change(up, func(o *Object) {
		if exists = made && !o.gone; exists {
			o.Copy, o.Lost = down, ""
		}
	})
	return exists
}

// reportedWithin bounds how long the cache may lack a copy before its handler reports why. Longer means that a new
// list lacked it, which does not say who deleted it.
const reportedWithin = 2 * time.Second

// Awaited returns how long to wait for the report about a living copy that the cache lacks.
func (m *Memory) Awaited(up types.NamespacedName, now time.Time) (wait time.Duration) {
	if m.Of(up).Lives == "" {
		return 0
	}
	m.Change(up, func(o *Object) {
		if o.missed.IsZero() {
			o.missed = now
		}
		wait = max(0, reportedWithin-now.Sub(o.missed))
	})
	return wait
}

// Forget drops an upstream object without a copy. Copies at earlier addresses stay known.
func (m *Memory) Forget(up types.NamespacedName) {
	m.fights.Remove(up)
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.all[up]; one != nil {
		m.copies -= one.copies()
		*one = Object{former: one.former}
		if m.copies += one.copies(); len(one.former) == 0 {
			delete(m.all, up)
		}
	}
	for down, waiting := range m.blocked {
		if waiting.Delete(up); len(waiting) == 0 {
			delete(m.blocked, down)
		}
	}
}

// Block notes that up waits for the name down.
func (m *Memory) Block(down, up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked[down] == nil {
		m.blocked[down] = waitings{}
	}
	m.blocked[down].Insert(up)
}

// Unblock returns who waits for a name, and forgets them.
func (m *Memory) Unblock(down types.NamespacedName) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := m.blocked[down].UnsortedList()
	delete(m.blocked, down)
	return waiting
}

// Former notes a copy at an earlier address, until Left.
func (m *Memory) Former(up, down types.NamespacedName) {
	m.Change(up, func(o *Object) {
		if o.former == nil {
			o.former = sets.Set[types.NamespacedName]{}
		}
		o.former.Insert(down)
	})
}

// Left notes that such a copy has gone.
func (m *Memory) Left(up, down types.NamespacedName) {
	m.Change(up, func(o *Object) { o.former.Delete(down) })
}

// FormersOf returns the copies at earlier addresses.
func (m *Memory) FormersOf(up types.NamespacedName) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.all[up]; one != nil {
		return one.former.UnsortedList()
	}
	return nil
}

const (
	eventLife = time.Hour // the default of an API server
	maxTold   = 10_000    // maxTold bounds memory. A dropped event may be sent again.
)

// Tell reports whether to send an event, and notes it.
func (m *Memory) Tell(name string) bool {
	_, told := m.told.Get(name)
	if !told {
		m.told.Add(name, nil, eventLife)
	}
	return !told
}

// Untold takes that back.
func (m *Memory) Untold(name string) { m.told.Remove(name) }

// Digest is valid in this process, and never 0.
func (m *Memory) Digest(obj map[string]any) uint64 {
	data, err := json.Marshal(obj) // The keys are sorted.
	if err != nil {
		return 1 // An object from an API server can be marshaled.
	}
	return max(maphash.Bytes(m.seed, data), 1)
}
