// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// shards are locks: five hundred remotes that write at the same time rarely wait for each other.
const shards = 64

// Writes counts the writes in flight by remote. It is safe for many goroutines; nil counts nothing.
type Writes struct {
	began  time.Time
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu     sync.Mutex // protects the fields
	flying map[string]*count
	spare  *count // without a write, for the next name; may be nil

	_ [40]byte // Two shards are never in one cache line.
}

// The lock of its shard protects it.
type count struct {
	writes int           // positive while the shard has the count
	none   chan struct{} // closed when there is no write; nil while no call waits
}

// New returns Writes without a write.
func New() *Writes {
	w := &Writes{began: time.Now(), seed: maphash.MakeSeed()}
	for i := range w.shards {
		w.shards[i].flying = map[string]*count{}
	}
	return w
}

func (w *Writes) shardOf(name string) *shard {
	return &w.shards[maphash.String(w.seed, name)%shards]
}

// Of returns what counts the writes of a remote. It may be kept, and holds nothing until a write begins.
func (w *Writes) Of(name string) *Remote {
	if w == nil {
		return nil
	}
	return &Remote{name: name, writes: w, shard: w.shardOf(name)}
}

// Await returns nil when no write to the remote is in flight. When ctx ends first it returns the cause, and how many
// are. It waits for writes that begin meanwhile, too.
func (w *Writes) Await(ctx context.Context, name string) error {
	if w == nil {
		return nil
	}
	s := w.shardOf(name)
	none := s.none(name)
	if none == nil {
		return nil
	}
	select {
	case <-none:
		return nil
	case <-ctx.Done():
	}
	left := s.count(name)
	if left == 0 {
		return nil
	}
	return fmt.Errorf("wait for the writes to %s, of which %d are in flight: %w", name, left, context.Cause(ctx))
}

// none returns nil if none is in flight already.
func (s *shard) none(name string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.flying[name]
	if c == nil {
		return nil
	}
	if c.none == nil {
		c.none = make(chan struct{})
	}
	return c.none
}

func (s *shard) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.flying[name]; c != nil {
		return c.writes
	}
	return 0
}

// Remote counts the writes of one remote. The methods of nil count nothing.
type Remote struct {
	name   string
	writes *Writes
	shard  *shard
}

// Begin counts a write. Call it before the gate is asked, and then End or EndAfter of the Write, once.
func (r *Remote) Begin() Write {
	if r == nil {
		return Write{}
	}
	s := r.shard
	s.mu.Lock()
	c := s.flying[r.name]
	if c == nil {
		c = s.add(r.name)
	}
	c.writes++
	s.mu.Unlock()
	return Write{remote: r, count: c, began: time.Since(r.writes.began)}
}

// add needs mu, and a name that has no write.
func (s *shard) add(name string) *count {
	c := s.spare
	if c == nil {
		c = &count{}
	}
	s.flying[name], s.spare = c, nil
	return c
}

// Write is one write in flight.
type Write struct {
	remote *Remote
	count  *count
	began  time.Duration // after the beginning of the Writes
}

// End says that the write has a response, or was not sent.
func (w Write) End() {
	if w.remote == nil {
		return
	}
	s, c := w.remote.shard, w.count
	s.mu.Lock()
	defer s.mu.Unlock()
	c.writes--
	if c.writes > 0 {
		return
	}
	delete(s.flying, w.remote.name)
	if c.none != nil {
		close(c.none)
		c.none = nil
	}
	s.spare = c
}

// EndAfter says that the outcome is unknown, and the write times out so long after its beginning.
func (w Write) EndAfter(timeout time.Duration) {
	if w.remote == nil {
		return
	}
	left := timeout - (time.Since(w.remote.writes.began) - w.began)
	if left <= 0 {
		w.End()
		return
	}
	time.AfterFunc(left, w.End)
}
