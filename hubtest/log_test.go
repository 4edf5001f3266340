// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// listening is a test that keeps its log.
type listening struct {
	testing.TB
	failed   bool
	lines    []string
	cleanups []func()
}

func (l *listening) Failed() bool     { return l.failed }
func (l *listening) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }
func (l *listening) Logf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func TestLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verbose, failed bool
		lines           int
		first           string
	}{
		"of a test that passes is not shown":        {false, false, 0, ""},
		"of a test that fails is shown at its end":  {false, true, 1 + lastLines, "hub: 50 lines before these are not shown"},
		"is shown at once if the options demand it": {true, false, 2 * lastLines, `hub:  "level"=0 "msg"="line" "n"=0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := &listening{TB: t, failed: c.failed}
			l := newLog(tb, c.verbose)
			for n := range 2 * lastLines {
				l.logger().Info("line", "n", n)
			}
			l.showIfFailed()
			if len(tb.lines) != c.lines || c.lines > 0 && !strings.HasPrefix(tb.lines[0], c.first) {
				t.Errorf("got %d lines: %q", len(tb.lines), tb.lines)
			}
			for _, f := range tb.cleanups {
				f()
			}
			l.logger().Info("what comes too late")
			testkit.Equal(t, len(tb.lines), c.lines, "lines after the end of the test")
		})
	}
}
