// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// log records the hub's log messages, and shows them if the test fails.
type log struct {
	mu    sync.Mutex // protects lines
	lines []string
}

func newLog(t *testing.T) *log {
	t.Helper()
	l := &log{}
	t.Cleanup(func() {
		if !t.Failed() || !testing.Verbose() {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		t.Logf("log of the hub:\n%s", strings.Join(l.lines, "\n"))
	})
	return l
}

// boring has parts of messages that libraries log whenever a manager ends or a controller starts.
var boring = []string{
	"Shutdown signal", "All workers finished", "Starting EventSource", "Starting Controller", "Starting workers",
	"watch ended with error", "context canceled", "waiting for", "Wait completed",
}

func (l *log) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		for _, text := range boring {
			if strings.Contains(args, text) {
				return
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, time.Now().Format("15:04:05.000 ")+prefix+" "+args)
	}, funcr.Options{})
}
