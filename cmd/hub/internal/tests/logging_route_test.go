// SPDX-License-Identifier: Apache-2.0

package tests

import (
	stdlog "log"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/logging"
)

// Messages of net/http about peers are for debugging: a remote must not fill the hub's log.
//
//nolint:paralleltest // It changes where Go's log package writes.
func TestRoute_GoLog(t *testing.T) {
	before := stdlog.Writer()
	t.Cleanup(func() { stdlog.SetOutput(before) })
	for level, want := range map[string]int{"info": 0, "debug": 1} {
		log, out := newLog(t, logging.Options{Level: level})
		logging.Route(log)
		stdlog.Printf("Unsolicited response received on idle HTTP channel starting with %q", "\x1b[2J")
		if got := strings.Count(out.String(), "Unsolicited"); got != want || strings.Contains(out.String(), "\x1b") {
			t.Errorf("level %s: %q, want %d lines", level, out.String(), want)
		}
	}
}
