// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"encoding/json"
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// memory is the knowledge of a controller about its copies. It is filled by the events of the downstream cluster and by the
// controller's own writes, and lost with the process: the copies themselves have the same knowledge in their marks.
type memory struct {
	mu sync.Mutex // protects the maps
	// names are the names of the copies, by upstream object.
	names map[types.NamespacedName]types.NamespacedName
	// sources are downstream objects of somebody else, by the upstream object that an UpSyncer makes for them.
	sources map[types.NamespacedName]types.NamespacedName
	// blocked are upstream objects that wait for the name of an object of somebody else.
	blocked map[types.NamespacedName]sets.Set[types.NamespacedName]
	// lost are the UIDs of originals whose copy somebody else has deleted, by upstream object.
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
	// written are the digests of the last writes, by upstream object.
	written map[types.NamespacedName]write
}

func newMemory() *memory {
	return &memory{
		names:   map[types.NamespacedName]types.NamespacedName{},
		sources: map[types.NamespacedName]types.NamespacedName{},
		blocked: map[types.NamespacedName]sets.Set[types.NamespacedName]{},
		lost:    map[types.NamespacedName]types.UID{},
		writing: map[types.NamespacedName]bool{},
		own:     map[types.NamespacedName]types.UID{},
		alive:   map[types.NamespacedName]living{},
		told:    map[string]time.Time{},
		seed:    maphash.MakeSeed(),
		written: map[types.NamespacedName]write{},
	}
}

// write is a write of the controller, as digests.
type write struct {
	desired uint64   // the object that was sent
	made    revision // the revision of the copy that the write has made
	answer  uint64   // the object that the API server has made of it; 0 if it contains everything that was sent
	status  statusWrite
	// replaced is the revision of the copy that the last write has replaced, and at its time: a cache that still has this
	// revision is behind.
	replaced revision
	at       time.Time
}

// living is a copy that was seen without a deletionTimestamp.
type living struct {
	uid    types.UID
	missed time.Time // since when the cache lacks it, although no event has reported its deletion; zero if it does not
}

// revision is a resourceVersion of a copy. A copy that does not exist has the revision noCopy.
type revision string

const noCopy revision = "none"

// staleFor is how long a cache may be behind a write. Later its state is what it has: a copy that was deleted in a moment without
// a watch never appears.
const staleFor = time.Second

// exists records a copy.
func (m *memory) exists(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[up] = down
	delete(m.lost, up)
}

// gone records that a copy has gone. uid is that of its original, and is empty unless somebody else has deleted the copy.
func (m *memory) gone(up types.NamespacedName, uid types.UID) {
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

// begin records that a copy is being written, until end.
func (m *memory) begin(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing[up] = false
}

// end ends a write that has made or changed a copy, unless made is false. It reports whether the copy exists as far as events
// tell: its deletion may be known before the answer to the write.
func (m *memory) end(up, down types.NamespacedName, made bool) bool {
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

// deletes records that the controller deletes a copy.
func (m *memory) deletes(up types.NamespacedName, copied types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own[up] = copied
}

// spares records that the API server has refused to delete a copy.
func (m *memory) spares(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.own, up)
}

// isOwn reports whether the controller itself deletes a copy.
func (m *memory) isOwn(up types.NamespacedName, copied types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied != "" && m.own[up] == copied
}

// lives records that a copy was seen without a deletionTimestamp.
func (m *memory) lives(up types.NamespacedName, copied types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive[up] = living{uid: copied}
}

// lived reports whether a copy was seen without a deletionTimestamp, so that its deletion has begun while this process runs.
func (m *memory) lived(up types.NamespacedName, copied types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied != "" && m.alive[up].uid == copied
}

// reportedWithin bounds how long the cache may lack a copy before its event handler reports why: the process does both. Longer
// means that a new list lacked the copy, which says nothing about who has deleted it.
const reportedWithin = 2 * time.Second

// awaited returns for how long to wait for the report of a deletion, if the cache lacks a copy that was seen to be alive.
func (m *memory) awaited(up types.NamespacedName, now time.Time) time.Duration {
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

// forget drops the knowledge about an upstream object that has no copy and does not exist.
func (m *memory) forget(up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, up)
	delete(m.sources, up)
	delete(m.lost, up)
	delete(m.written, up)
	delete(m.own, up)
	delete(m.alive, up)
	for down, waiting := range m.blocked {
		if waiting.Delete(up); len(waiting) == 0 {
			delete(m.blocked, down)
		}
	}
}

func (m *memory) nameOf(up types.NamespacedName) (types.NamespacedName, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ok := m.names[up]
	return name, ok
}

func (m *memory) isLost(up types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost[up] == uid && uid != ""
}

// count returns the number of copies.
func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.names)
}

// block records that an upstream object waits for a name.
func (m *memory) block(down, up types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocked[down] == nil {
		m.blocked[down] = sets.New[types.NamespacedName]()
	}
	m.blocked[down].Insert(up)
}

// unblock returns the upstream objects that wait for a name, and forgets them.
func (m *memory) unblock(down types.NamespacedName) []types.NamespacedName {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := m.blocked[down].UnsortedList()
	delete(m.blocked, down)
	return waiting
}

func (m *memory) last(up types.NamespacedName) write {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written[up]
}

func (m *memory) wrote(up types.NamespacedName, change func(*write)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.written[up]
	change(&one)
	m.written[up] = one
}

func (m *memory) isSource(up, down types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources[up] = down
}

func (m *memory) sourceOf(up types.NamespacedName) (types.NamespacedName, bool) {
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

// tell reports whether an event is to be recorded, and notes that it is.
func (m *memory) tell(name string, now time.Time) bool {
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

// untold notes that an event could not be recorded.
func (m *memory) untold(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.told, name)
}

// digest returns a digest of an object, which is valid in this process only. It is never 0.
func (m *memory) digest(obj map[string]any) uint64 {
	data, err := json.Marshal(obj) // The keys are sorted.
	if err != nil {
		return 1 // An object from an API server can be marshaled.
	}
	return max(maphash.Bytes(m.seed, data), 1)
}
