// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/clusterfx/clusterfx/internal/errtree"
)

func TestAll(t *testing.T) {
	t.Parallel()
	end, other := io.EOF, io.ErrClosedPipe
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                     {nil, false},
		"the error":               {end, true},
		"another":                 {other, false},
		"wrapped":                 {fmt.Errorf("read: %w", end), true},
		"joined":                  {errors.Join(end, end), true},
		"joined with another":     {errors.Join(end, other), false},
		"two verbs":               {fmt.Errorf("%w: %w", end, other), false},
		"wrapped, joined":         {fmt.Errorf("read: %w", errors.Join(end, fmt.Errorf("again: %w", end))), true},
		"another, deep in a join": {errors.Join(end, fmt.Errorf("read: %w", errors.Join(end, other))), false},
	} {
		if got := errtree.All(c.err, func(err error) bool { return err == end }); got != c.want { //nolint:errorlint // All unwraps.
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
