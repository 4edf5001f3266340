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

// Memory is the knowledge of a controller about its copies. It is filled by the events of the downstream cluster and by the
// controller's own writes, and lost with the process: the copies themselves have the same knowledge in their marks.
type Memory struct {
	mu sync.Mutex // protects the maps
	// names are the names of the copies, by upstream object.
	names map[types.NamespacedName]types.NamespacedName
	// sources are foreign downstream objects, by the upstream object that an UpSyncer makes for them.
	sources map[types.NamespacedName]types.NamespacedName
	// blocked are upstream objects that wait for the name of a foreign object.
	blocked map[types.NamespacedName]sets.Set[types.NamespacedName]
	// lost are the UIDs of originals whose copy another client has deleted, by upstream object.
	lost map[types.NamespacedName]types.UID
	// writing are the upstream objects whose copy is being written, with whether the copy has gone since the write began.
	writing map[types.NamespacedName]bool
	// own are the UIDs of copies that the controller itself deletes, by upstream object.
	own map[types.NamespacedName]types.UID
	// alive are the copies that were seen without a deletionTimestamp, by upstream object, if deletions are propagated.
	alive map[types.NamespacedName]living
	// told are the names of the events of the last hour.
	told map[string]time.Time
	seed maphash.Seed
	// failures are how many writes in a row an API server has refused, by upstream object.
	failures map[types.NamespacedName]int
	// written are the digests of the last writes, by upstream object.
	written map[types.NamespacedName]Write
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
		seed:    maphash.MakeSeed(),
		written: map[types.NamespacedName]Write{}, failures: map[types.NamespacedName]int{},
	}
}

// Write is the last write of the controller for one object, as digests.
type Write struct {
	Desired uint64   // the object that was sent
	Made    Revision // the revision of the copy that the write has made
	Answer  uint64   // the object that the API server has made of it; 0 if it contains everything that was sent
	Left    uint64   // what the API server has left in the copy beside what was sent; 0 for nothing
	Status  StatusWrite
	// Replaced is the revision of the copy that the last write has replaced, and At its time: a cache that still has this
	// revision is behind.
	Replaced Revision
	At       time.Time
}

// StatusWrite is the last write of the status upstream.
type StatusWrite struct {
	Sent uint64 // the digest of the status
	// Declared are the fields of the status that the upstream schema has, if it lacks some; otherwise nil.
	Declared map[string]any
	// Before is the revision of the upstream object that the write has replaced by Made, and At its time.
	Before, Made Revision
	At           time.Time
	// Due is when the next write has its turn; zero if there is none.
	Due time.Time
	// Kept is the digest of the status that the upstream object had if the write has changed nothing; otherwise 0.
	Kept uint64
}

// living is a copy that was seen without a deletionTimestamp.
type living struct {
	uid    types.UID
	missed time.Time // since when the cache lacks it, although no event has reported its deletion; zero if it does not
}

// Revision is a resourceVersion. A copy that does not exist has the Revision NoCopy.
type Revision string

// NoCopy is the Revision of a copy that does not exist.
const NoCopy Revision = "none"

// StaleFor is how long a cache may be behind a write. Later its state is what it has: a copy that was deleted in a moment without
// a watch never appears.
const StaleFor = time.Second

// Exists records a copy.
func (m *Memory) Exists(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[up] = down
	delete(m.lost, up)
}

// Gone records that a copy has gone. uid is that of its original, and is empty unless another client has deleted the copy.
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

// Begin records that a copy is being written, until end.
func (m *Memory) Begin(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing[up] = false
}

// End ends a write that has made or changed a copy, unless made is false. It reports whether the copy exists as far as events
// tell: its deletion may be known before the answer to the write.
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

// Deletes records that the controller deletes a copy.
func (m *Memory) Deletes(up types.NamespacedName, copied types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own[up] = copied
}

// Spares records that the API server has refused to delete a copy.
func (m *Memory) Spares(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.own, up)
}

// IsOwn reports whether the controller itself deletes a copy.
func (m *Memory) IsOwn(up types.NamespacedName, copied types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied != "" && m.own[up] == copied
}

// Lives records that a copy was seen without a deletionTimestamp.
func (m *Memory) Lives(up types.NamespacedName, copied types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive[up] = living{uid: copied}
}

// Lived reports whether a copy was seen without a deletionTimestamp, so that its deletion has begun while this process runs.
func (m *Memory) Lived(up types.NamespacedName, copied types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied != "" && m.alive[up].uid == copied
}

// reportedWithin bounds how long the cache may lack a copy before its event handler reports why: the process does both. Longer
// means that a new list lacked the copy, which says nothing about who has deleted it.
const reportedWithin = 2 * time.Second

// Awaited returns for how long to wait for the report of a deletion, if the cache lacks a copy that was seen to be alive.
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

// Forget drops the knowledge about an upstream object that has no copy and does not exist.
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

// NameOf returns the name of the copy of an upstream object, and false if none is known.
func (m *Memory) NameOf(up types.NamespacedName) (types.NamespacedName, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ok := m.names[up]
	return name, ok
}

// IsLost reports whether another client has deleted the copy of the original with this UID.
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

// Block records that an upstream object waits for a name.
func (m *Memory) Block(down, up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked[down] == nil {
		m.blocked[down] = sets.New[types.NamespacedName]()
	}
	m.blocked[down].Insert(up)
}

// Unblock returns the upstream objects that wait for a name, and forgets them.
func (m *Memory) Unblock(down types.NamespacedName) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := m.blocked[down].UnsortedList()
	delete(m.blocked, down)
	return waiting
}

// Last returns the last write for an upstream object. The zero Write means that there was none.
func (m *Memory) Last(up types.NamespacedName) Write {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written[up]
}

// Wrote changes the record of the last write for an upstream object.
func (m *Memory) Wrote(up types.NamespacedName, change func(*Write)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.written[up]
	change(&one)
	m.written[up] = one
}

// Failed records that a write for an upstream object was refused, or that all have succeeded. It returns how many were refused in a row.
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

// IsSource records the downstream object for which an UpSyncer makes an upstream object.
func (m *Memory) IsSource(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources[up] = down
}

// SourceOf returns the downstream object for which an UpSyncer makes an upstream object, and false if none is known.
func (m *Memory) SourceOf(up types.NamespacedName) (types.NamespacedName, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	down, ok := m.sources[up]
	return down, ok
}

const (
	// eventLife is how long an API server keeps an event, unless its administrator changes that.
	eventLife = time.Hour
	// maxTold bounds the events that are remembered. One that is dropped may be recorded again.
	maxTold = 10_000
)

// Tell reports whether an event is to be recorded, and notes that it is.
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

// Untold notes that an event could not be recorded.
func (m *Memory) Untold(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, name)
}

// Digest returns a digest of an object, which is valid in this process only. It is never 0.
func (m *Memory) Digest(obj map[string]any) uint64 {
	data, err := json.Marshal(obj) // The keys are sorted.
	if err != nil {
		return 1 // An object from an API server can be marshaled.
	}
	return max(maphash.Bytes(m.seed, data), 1)
}
