// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"slices"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// lastLines is how many lines of the hub's log a test shows that fails.
const lastLines = 50

// log is the hub's log. It is quiet: its last lines become a part of the test's log when the test has failed, or each
// one at once with the option Verbose. What an app that did not stop has to say after the end of the test is dropped:
// testing would panic.
type log struct {
	verbose bool

	mu   sync.Mutex // protects the fields below, and is held while a line is written
	tb   testing.TB // nil when the test has ended
	last []string   // that were not shown yet
	lost int        // lines before those
}

// newLog returns a log that ends after everything that is registered with Cleanup later.
func newLog(tb testing.TB, verbose bool) *log {
	tb.Helper()
	l := &log{tb: tb, verbose: verbose}
	tb.Cleanup(func() {
		l.showIfFailed()
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
	switch {
	case l.tb == nil:
	case l.verbose:
		l.tb.Logf("hub: %s %s", prefix, text)
	default:
		l.last = append(l.last, prefix+" "+text)
		if more := len(l.last) - lastLines; more > 0 {
			l.last, l.lost = slices.Delete(l.last, 0, more), l.lost+more
		}
	}
}

// showIfFailed shows the last lines if the test has failed, and begins again with none. It is called before the hub is
// stopped, so that what led to the failure is not pushed out by the end of the hub.
func (l *log) showIfFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tb == nil || !l.tb.Failed() {
		return
	}
	if l.lost > 0 {
		l.tb.Logf("hub: %d lines before these are not shown; hubtest.Verbose shows all", l.lost)
	}
	for _, line := range l.last {
		l.tb.Logf("hub: %s", line)
	}
	l.last, l.lost = nil, 0
}
