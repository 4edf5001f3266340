// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of a Buffer.
const (
	// maxPending bytes may wait. As many may be on their way.
	maxPending = 1 << 20
	// flushTimeout is for a reader in Close.
	flushTimeout = time.Second
)

// Buffer is a writer that never waits for its reader. When that falls behind, lines are dropped and counted, and the
// next one says how many. zapcore.BufferedWriteSyncer holds its lock while it writes.
type Buffer struct {
	to      io.Writer
	limit   int
	dropped prometheus.Counter
	wake    chan struct{} // capacity 1: there is something to write, or the end has come
	done    chan struct{} // closed when everything is written

	mu      sync.Mutex // protects the fields; held for no longer than an append
	pending []byte
	missing uint64 // lines that were dropped since the writer took pending last
	closed  bool
	notice  func(lines uint64) []byte // makes the line that says so; nil for none
}

// NewBuffer returns a buffer in front of w, whose goroutine ends with Close.
func NewBuffer(w io.Writer) *Buffer { return newBuffer(w, maxPending) }

func newBuffer(w io.Writer, limit int) *Buffer {
	b := &Buffer{
		to: w, limit: limit, wake: make(chan struct{}, 1), done: make(chan struct{}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clusterfx_log_lines_dropped_total",
			Help: "Lines of the log that were dropped because the hub's output was not read fast enough.",
		}),
	}
	go b.run()
	return b
}

// Write takes lines to be written, or drops them. It returns at once, and never fails.
func (b *Buffer) Write(lines []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// After the first dropped line, others are dropped until there is room: the notice is where they miss.
	if b.missing > 0 || len(b.pending)+len(lines) > b.limit {
		n := max(bytes.Count(lines, []byte{'\n'}), 1)
		b.missing += uint64(n)
		b.dropped.Add(float64(n))
		b.signal() // A line that is longer than the limit is dropped while the writer has nothing to do.
		return len(lines), nil
	}
	b.pending = append(b.pending, lines...)
	b.signal()
	return len(lines), nil
}

// Sync does nothing: whoever logs does not wait.
func (b *Buffer) Sync() error { return nil }

// Close waits until everything is written, a second at most; then the goroutine is left in its write. It may be called
// several times and at once.
func (b *Buffer) Close() {
	b.mu.Lock()
	b.closed = true
	b.signal()
	b.mu.Unlock()
	bound := time.NewTimer(flushTimeout)
	defer bound.Stop()
	select {
	case <-b.done:
	case <-bound.C:
	}
}

// Describe implements prometheus.Collector.
func (b *Buffer) Describe(to chan<- *prometheus.Desc) { b.dropped.Describe(to) }

// Collect implements prometheus.Collector.
func (b *Buffer) Collect(to chan<- prometheus.Metric) { b.dropped.Collect(to) }

func (b *Buffer) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Buffer) run() {
	defer close(b.done)
	for range b.wake {
		for {
			batch, closed := b.take()
			if len(batch) == 0 && closed {
				return
			}
			if len(batch) == 0 {
				break
			}
			_, _ = b.to.Write(batch) // There is nowhere to say that it failed.
		}
	}
}

// take also returns the line that reports missing ones.
func (b *Buffer) take() (batch []byte, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch = b.pending
	b.pending = nil
	if b.missing > 0 && b.notice != nil {
		batch = append(batch, b.notice(b.missing)...)
	}
	b.missing = 0
	return batch, b.closed
}

func (b *Buffer) announce(notice func(lines uint64) []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notice = notice
}
