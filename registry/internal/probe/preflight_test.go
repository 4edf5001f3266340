// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"
	"time"
)

func TestPreflightPause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		complete bool
		changes  int
		want     time.Duration
	}{
		{false, 0, 10 * time.Second},
		{true, 0, time.Minute},
		{true, 1, time.Minute}, // a CRD was installed, and is removed
		{true, 3, time.Minute},
		{true, 4, 2 * time.Minute},
		{false, 3, 10 * time.Second},
		{false, 6, 80 * time.Second},
		{false, 10, 5 * time.Minute},
		{true, 10, 5 * time.Minute},
	} {
		if got := NewPauses().after(c.complete, c.changes); got != c.want {
			t.Errorf("after %d changes, complete %t: got %s, want %s", c.changes, c.complete, got, c.want)
		}
	}
}
