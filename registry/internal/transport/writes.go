// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Writes counts the writes that are on their way to remotes, by remote, and waits until there is none. A write counts
// before it asks the gate: otherwise it could pass, the gate could close, Await could find nothing, and then it could be
// sent. A write without a response may still take effect, from a proxy's buffer or a handler that does not notice that
// the client is gone, so it counts until it would have timed out, however early the sender gave up.
//
// Counts belong to no app or connection, and remain after both. Writes are safe for many goroutines; nil counts nothing.
type Writes struct {
	mu     sync.Mutex // protects flying and the counts; held for a few instructions
	flying map[string]*flight
}

// flight has a write.
type flight struct {
	writes int
	none   chan struct{} // closed when there is no write; nil while no call waits
}

// NewWrites returns Writes without a write.
func NewWrites() *Writes { return &Writes{flying: map[string]*flight{}} }

// Await returns nil when no write to the remote is in flight. When ctx ends first it returns the cause, and how many
// are. It waits for writes that begin meanwhile, too.
func (w *Writes) Await(ctx context.Context, name string) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	f := w.flying[name]
	if f == nil {
		w.mu.Unlock()
		return nil
	}
	if f.none == nil {
		f.none = make(chan struct{})
	}
	none := f.none
	w.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f = w.flying[name]; f == nil {
		return nil
	}
	return fmt.Errorf("wait for the writes to %s, of which %d are in flight: %w", name, f.writes, context.Cause(ctx))
}

// Of returns what counts the writes of a remote. It may be kept, and holds nothing until a write begins.
func (w *Writes) Of(name string) *WritesOf {
	if w == nil {
		return nil
	}
	return &WritesOf{w, name}
}

// WritesOf counts the writes of one remote; nil counts nothing.
type WritesOf struct {
	in   *Writes
	name string
}

// begin counts a write; end or endAfter of it must follow, once.
func (w *WritesOf) begin() write {
	if w == nil {
		return write{}
	}
	w.in.mu.Lock()
	defer w.in.mu.Unlock()
	f := w.in.flying[w.name]
	if f == nil {
		f = &flight{}
		w.in.flying[w.name] = f
	}
	f.writes++
	return write{w, time.Now()}
}

type write struct {
	of    *WritesOf
	began time.Time
}

// end says that the write has a response, or was not sent.
func (w write) end() {
	if w.of == nil {
		return
	}
	in, name := w.of.in, w.of.name
	in.mu.Lock()
	defer in.mu.Unlock()
	f := in.flying[name]
	f.writes--
	if f.writes > 0 {
		return
	}
	delete(in.flying, name)
	if f.none != nil {
		close(f.none)
	}
}

// endAfter says that the outcome is unknown, and the write times out so long after its beginning.
func (w write) endAfter(timeout time.Duration) {
	if left := timeout - time.Since(w.began); w.of == nil || left <= 0 {
		w.end()
	} else {
		time.AfterFunc(left, w.end)
	}
}
