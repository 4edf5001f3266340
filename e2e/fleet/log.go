// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"io"
	"sync"

	kindlogger "sigs.k8s.io/kind/pkg/log"
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

// kindLog writes the messages of kind to the fleet's log.
type kindLog struct{ w io.Writer }

var (
	_ kindlogger.Logger     = kindLog{}
	_ kindlogger.InfoLogger = kindLog{}
)

func (l kindLog) Warn(message string)               { l.Info(message) }
func (l kindLog) Warnf(format string, args ...any)  { l.Infof(format, args...) }
func (l kindLog) Error(message string)              { l.Info(message) }
func (l kindLog) Errorf(format string, args ...any) { l.Infof(format, args...) }
func (l kindLog) Info(message string)               { _, _ = fmt.Fprintln(l.w, message) }
func (l kindLog) Infof(format string, args ...any)  { _, _ = fmt.Fprintf(l.w, format+"\n", args...) }
func (l kindLog) Enabled() bool                     { return true }

// V drops kind's debugging.
func (l kindLog) V(level kindlogger.Level) kindlogger.InfoLogger {
	if level > 0 {
		return kindlogger.NoopInfoLogger{}
	}
	return l
}
