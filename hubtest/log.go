// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// log is the hub's log, as a part of the test's. What an app that did not stop has to say after the
// end of the test is dropped: testing would panic.
type log struct {
	mu sync.Mutex // protects tb, and is held while a line is written
	tb testing.TB // nil when the test has ended
}

// newLog returns a log that ends after everything that is registered with Cleanup later.
func newLog(tb testing.TB) *log {
	tb.Helper()
	l := &log{tb: tb}
	tb.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.tb = nil
	})
	return l
}

func (l *log) logger() logr.Logger {
	return funcr.New(l.write, funcr.Options{})
}

func (l *log) write(prefix, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tb == nil {
		return
	}
	l.tb.Logf("hub: %s %s", prefix, text)
}
