// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/logsink"

	"github.com/go-logr/logr/funcr"
)

// After the end of an app, errors that only report this end are logged at debug level, and so are all errors of the
// code that runs controllers. Other errors, and all errors before the end, stay errors.
func TestQuietAfter(t *testing.T) {
	t.Parallel()
	errStopped, other := errors.New("the app has stopped"), errors.New("another error")
	for _, c := range []struct {
		ended, all bool
		err        error
		quiet      bool
	}{
		{false, false, errStopped, false},
		{false, true, other, false},
		{true, false, other, false},
		{true, false, fmt.Errorf("write: %w", errStopped), true},
		{true, false, context.Canceled, true},
		{true, true, other, true},
		{true, true, nil, true},
	} {
		end, stop := context.WithCancel(t.Context())
		if c.ended {
			stop()
		}
		causes := []error{errStopped, context.Canceled}
		if c.all {
			causes = nil
		}
		for verbosity := range 2 {
			var lines []string
			log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: verbosity})
			logsink.QuietAfter(func() bool { return end.Err() != nil }, log, causes...).WithName("x").WithValues("a", 1).Error(c.err, "It failed")
			isError := slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(line, `"level"=1`) })
			if want := !c.quiet || verbosity > 0; isError == c.quiet || (len(lines) == 1) != want {
				t.Errorf("%+v with verbosity %d: got %q", c, verbosity, lines)
			}
		}
		stop()
	}
}
