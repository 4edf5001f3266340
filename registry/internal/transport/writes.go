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

// WriteCounter counts a write of one remote, which must be ended once. If its outcome is not settled, since it may have been sent and has
// no response, it counts until the timeout is over. Nil counts nothing.
type WriteCounter func(timeout time.Duration) (end func(isSettled bool))

// Of returns what counts the writes of a remote. It may be kept, and holds nothing until a write begins.
func (w *Writes) Of(name string) WriteCounter {
	if w == nil {
		return nil
	}
	return func(timeout time.Duration) func(bool) {
		w.begin(name)
		began := time.Now()
		return func(isSettled bool) {
			if left := timeout - time.Since(began); !isSettled && left > 0 {
				time.AfterFunc(left, func() { w.end(name) })
			} else {
				w.end(name)
			}
		}
	}
}

func (w *Writes) begin(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.flying[name]
	if f == nil {
		f = &flight{}
		w.flying[name] = f
	}
	f.writes++
}

func (w *Writes) end(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.flying[name]
	f.writes--
	if f.writes > 0 {
		return
	}
	delete(w.flying, name)
	if f.none != nil {
		close(f.none)
	}
}
