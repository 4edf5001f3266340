// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"io"
	"sync"
)

// log is shared by clusters that start at the same time.
type log struct {
	// One line at a time.
	mu sync.Mutex
	w  io.Writer
}

// Nowhere if w is nil.
func newLog(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return &log{w: w}
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(line)
}
