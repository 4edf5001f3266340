// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

const lastLines = 50

type log struct {
	verbose bool

	mu   sync.Mutex // held while a line is written
	tb   testing.TB // nil when the test has ended
	last []string   // lines that were not shown yet
	lost int        // earlier lines
	err  string     // the last error
}

// newLog ends after all Cleanup functions that are registered later.
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
	if !strings.HasPrefix(text, `"level"`) { // It is an error.
		l.err = text
	}
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

func (l *log) lastError() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// showIfFailed is called before the hub stops, so that its last lines do not displace those about the failure.
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
