// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"testing"
	"time"
)

// Without evidence ten entities, or a tenth, are deleted within ten minutes, and as many after that.
func TestLimiter(t *testing.T) {
	t.Parallel()
	for owned, want := range map[int]int{5: 5, 40: 10, 1000: 100} {
		var l limiter
		begun := time.Now()
		admitted := func(at time.Time, left int) int {
			n := 0
			for range left {
				if l.admit(left-n, at) {
					n++
				}
			}
			return n
		}
		first := admitted(begun, owned)
		if again := admitted(begun.Add(limitWithin), owned-first); first != want || again != 0 {
			t.Errorf("of %d entities %d are deleted at once and %d within ten minutes, want %d and 0", owned, first, again, want)
		}
		if later := admitted(begun.Add(limitWithin+time.Second), owned-first); owned > want && later == 0 {
			t.Errorf("of %d entities none is deleted after ten minutes", owned)
		}
	}
}
