// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	errConflict = errors.New("the object has been modified")
	errTimeout  = errors.New("no response in time")
)

// anyVersion makes a write without compare-and-swap.
const anyVersion = "*"

// The kinds of objects of the model.
const (
	kindLease  = "lease/"
	kindRecord = "record/"
	kindWish   = "wish/"
)

// change is one write in the history of the API server. A nil value is a deletion.
type change struct {
	at     time.Time
	key    string
	value  any
	before any // of a deletion
	number int // in the history, as the versions are
}

// apiServer is an API server in memory: objects with versions, compare-and-swap, and a history for watches.
type apiServer struct {
	mu      sync.Mutex
	history []change
	objects map[string]any
	epochs  map[string]int64 // the highest epoch of each record
	broken  string           // an invariant that a write broke
}

func newAPIServer() *apiServer {
	return &apiServer{objects: map[string]any{}, epochs: map[string]int64{}}
}

func (s *apiServer) get(key string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

// write writes an object if it has the expected version; an empty one expects that there is no object. It returns the
// object with its new version.
func (s *apiServer) write(key string, value any, expected string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if expected != anyVersion && versionOf(s.objects[key]) != expected {
		return nil, errConflict
	}
	value = withVersion(s.withOwn(key, value), strconv.Itoa(len(s.history)+1))
	if r, isRecord := value.(Record); isRecord {
		if r.Epoch < s.epochs[key] {
			s.broken = key + ": the epoch goes back"
		}
		s.epochs[key] = r.Epoch
	}
	s.set(key, value)
	return value, nil
}

// withOwn returns what a merge patch makes of an object: a Lease keeps its UID, and the wishes of an administrator remain. The
// caller holds s.mu.
func (s *apiServer) withOwn(key string, value any) any {
	switch v := value.(type) {
	case Lease:
		v.UID = strconv.Itoa(len(s.history) + 1)
		if before, exists := s.objects[key].(Lease); exists {
			v.UID = before.UID
		}
		return v
	case wish:
		before, _ := s.objects[key].(wish)
		v.drained = before.drained
		return v
	}
	return value
}

// drain drains a Pod, or ends that wish. It is a merge patch without a version.
func (s *apiServer) drain(pod string, drained bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, _ := s.objects[kindWish].(wish)
	w.drained = maps.Clone(w.drained)
	if w.drained == nil {
		w.drained = map[string]bool{}
	}
	w.drained[pod], w.version = drained, strconv.Itoa(len(s.history)+1)
	s.set(kindWish, w)
}

func (s *apiServer) remove(key, expected string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if versionOf(s.objects[key]) == expected {
		s.set(key, nil)
	}
}

func (s *apiServer) set(key string, value any) {
	c := change{at: time.Now(), key: key, value: value, number: len(s.history) + 1}
	if value == nil {
		c.before = s.objects[key]
	}
	s.history = append(s.history, c)
	if s.objects[key] = value; value == nil {
		delete(s.objects, key)
	}
}

// since returns the changes of a kind after a place in the history, up to a time.
func (s *apiServer) since(from int, kind string, until time.Time) (changes []change, next int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; from < len(s.history) && !s.history[from].at.After(until); from++ {
		if strings.HasPrefix(s.history[from].key, kind) {
			changes = append(changes, s.history[from])
		}
	}
	return changes, from
}

func (s *apiServer) all() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

func (s *apiServer) violation() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

type wish struct {
	names    []string
	assigner string
	drained  map[string]bool
	version  string
}

func versionOf(value any) string {
	switch v := value.(type) {
	case Record:
		return v.Version
	case Lease:
		return v.Version
	case wish:
		return v.version
	}
	return ""
}

func withVersion(value any, version string) any {
	switch v := value.(type) {
	case Record:
		v.Version = version
		return v
	case Lease:
		v.Version = version
		return v
	case wish:
		v.version = version
		return v
	}
	return value
}
