// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"io"
	"sync"
)

// log is the writer that clusters share which start at the same time.
type log struct {
	// mu lets one line at a time through to w.
	mu sync.Mutex
	w  io.Writer
}

// newLog returns a log that writes to w, or nowhere if w is nil.
func newLog(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return &log{w: w}
}

// Write writes a line.
func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
}
