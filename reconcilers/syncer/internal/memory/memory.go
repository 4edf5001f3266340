// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"encoding/json"
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Memory is what a controller knows of its copies, from downstream events and its own writes. It is lost with the
// process: the copies' marks have the same.
type Memory struct {
	mu sync.Mutex
	// by upstream object
	names map[types.NamespacedName]types.NamespacedName
	// downstream objects of an UpSyncer, by upstream object
	sources map[types.NamespacedName]types.NamespacedName
	blocked map[types.NamespacedName]sets.Set[types.NamespacedName]
	// UIDs of originals whose copy another client has deleted
	lost map[types.NamespacedName]types.UID
	// whether the copy has gone since the write began
	writing map[types.NamespacedName]bool
	// UIDs of copies that we delete
	own map[types.NamespacedName]types.UID
	// copies seen without a deletionTimestamp, if deletions are propagated
	alive map[types.NamespacedName]living
	// names of events of the last hour
	told map[string]time.Time
	seed maphash.Seed
	// refused writes in a row
	failures map[types.NamespacedName]int
	// digests of the last writes
	written map[types.NamespacedName]Write
	// copies at an earlier address, by upstream object
	former map[types.NamespacedName]sets.Set[types.NamespacedName]
}

// New returns an empty Memory.
func New() *Memory {
	return &Memory{
		names:   map[types.NamespacedName]types.NamespacedName{},
		sources: map[types.NamespacedName]types.NamespacedName{},
		blocked: map[types.NamespacedName]sets.Set[types.NamespacedName]{},
		lost:    map[types.NamespacedName]types.UID{},
		writing: map[types.NamespacedName]bool{},
		own:     map[types.NamespacedName]types.UID{},
		alive:   map[types.NamespacedName]living{},
		told:    map[string]time.Time{},
		former:  map[types.NamespacedName]sets.Set[types.NamespacedName]{},
		seed:    maphash.MakeSeed(),
		written: map[types.NamespacedName]Write{}, failures: map[types.NamespacedName]int{},
	}
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

type living struct {
	uid    types.UID
	missed time.Time // since when the cache lacks it without an event
}

// Revision is a resourceVersion, or NoCopy.
type Revision string

// NoCopy is the Revision of a missing copy.
const NoCopy Revision = "none"

// StaleFor is how long a cache may be behind. Later it is right: a copy that was deleted in a moment may never
// appear.
const StaleFor = time.Second

// Exists records a copy.
func (m *Memory) Exists(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[up] = down
	delete(m.lost, up)
}

// Gone records that a copy has gone. uid is the original's if another client has deleted it, else empty.
func (m *Memory) Gone(up types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, up)
	delete(m.written, up)
	delete(m.alive, up)
	if uid != "" {
		m.lost[up] = uid
	}
	if _, ok := m.writing[up]; ok {
		m.writing[up] = true
	}
}

// Begin records that a copy is being written, until End.
func (m *Memory) Begin(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing[up] = false
}

// End reports whether the copy exists as far as events tell: its deletion may be known before the answer. made is
// false if nothing was written.
func (m *Memory) End(up, down types.NamespacedName, made bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	exists := made && !m.writing[up]
	delete(m.writing, up)
	if exists {
		m.names[up] = down
		delete(m.lost, up)
	}
	return exists
}

// Deletes records that we delete a copy.
func (m *Memory) Deletes(up types.NamespacedName, copied types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own[up] = copied
}

// Spares records that the API server has refused that.
func (m *Memory) Spares(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.own, up)
}

// IsOwn reports whether we delete a copy.
func (m *Memory) IsOwn(up types.NamespacedName, copied types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied != "" && m.own[up] == copied
}

// Lives records a copy without a deletionTimestamp.
func (m *Memory) Lives(up types.NamespacedName, copied types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive[up] = living{uid: copied}
}

// Lived reports whether a copy's deletion began while this process runs.
func (m *Memory) Lived(up types.NamespacedName, copied types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied != "" && m.alive[up].uid == copied
}

// reportedWithin bounds how long the cache may lack a copy before its handler reports why. Longer means that a new
// list lacked it, which does not say who deleted it.
const reportedWithin = 2 * time.Second

// Awaited returns how long to wait for the report about a living copy that the cache lacks.
func (m *Memory) Awaited(up types.NamespacedName, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	copied, ok := m.alive[up]
	if !ok {
		return 0
	}
	if copied.missed.IsZero() {
		copied.missed = now
		m.alive[up] = copied
	}
	return max(0, reportedWithin-now.Sub(copied.missed))
}

// Forget drops an upstream object without a copy.
func (m *Memory) Forget(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, up)
	delete(m.sources, up)
	delete(m.lost, up)
	delete(m.written, up)
	delete(m.own, up)
	delete(m.alive, up)
	delete(m.failures, up)
	for down, waiting := range m.blocked {
		if waiting.Delete(up); len(waiting) == 0 {
			delete(m.blocked, down)
		}
	}
}

// NameOf returns the name of the copy, if known.
func (m *Memory) NameOf(up types.NamespacedName) (types.NamespacedName, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ok := m.names[up]
	return name, ok
}

// IsLost reports whether another client deleted the copy of the original with this UID.
func (m *Memory) IsLost(up types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[up] == uid && uid != ""
}

// Count returns the number of copies.
func (m *Memory) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.names)
}

// Block records that up waits for the name down.
func (m *Memory) Block(down, up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked[down] == nil {
		m.blocked[down] = sets.New[types.NamespacedName]()
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

// Last returns the last write, or the zero Write.
func (m *Memory) Last(up types.NamespacedName) Write {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written[up]
}

// Wrote changes the last Write.
func (m *Memory) Wrote(up types.NamespacedName, change func(*Write)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.written[up]
	change(&one)
	m.written[up] = one
}

// Former records a copy at an earlier address, until Left.
func (m *Memory) Former(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.former[up] == nil {
		m.former[up] = sets.New[types.NamespacedName]()
	}
	m.former[up].Insert(down)
}

// Left records that such a copy has gone.
func (m *Memory) Left(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.former[up], down); len(m.former[up]) == 0 {
		delete(m.former, up)
	}
}

// FormersOf returns the copies at earlier addresses.
func (m *Memory) FormersOf(up types.NamespacedName) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.former[up].UnsortedList()
}

// Formers returns the number of originals with such copies.
func (m *Memory) Formers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.former)
}

// Failed counts a refused write, or ends the count, and returns it.
func (m *Memory) Failed(up types.NamespacedName, refused bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !refused {
		delete(m.failures, up)
		return 0
	}
	m.failures[up]++
	return m.failures[up]
}

// IsSource records for which downstream object an UpSyncer makes up.
func (m *Memory) IsSource(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources[up] = down
}

// SourceOf returns what IsSource recorded.
func (m *Memory) SourceOf(up types.NamespacedName) (types.NamespacedName, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	down, ok := m.sources[up]
	return down, ok
}

const (
	eventLife = time.Hour // the default of an API server
	maxTold   = 10_000    // maxTold bounds memory. A dropped event may be recorded again.
)

// Tell reports whether to record an event, and notes it.
func (m *Memory) Tell(name string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, ok := m.told[name]; ok && now.Sub(last) < eventLife {
		return false
	}
	if len(m.told) >= maxTold {
		clear(m.told)
	}
	m.told[name] = now
	return true
}

// Untold takes that back.
func (m *Memory) Untold(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, name)
}

// Digest is valid in this process, and never 0.
func (m *Memory) Digest(obj map[string]any) uint64 {
	data, err := json.Marshal(obj) // The keys are sorted.
	if err != nil {
		return 1 // An object from an API server can be marshaled.
	}
	return max(maphash.Bytes(m.seed, data), 1)
}
