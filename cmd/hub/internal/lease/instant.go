// SPDX-License-Identifier: Apache-2.0

package lease

import "time"

// instant is a moment by two clocks.
type instant struct {
	monotonic time.Time // its monotonic reading counts
	wall      time.Time // has no monotonic reading
}

// present is now.
func present() instant {
	now := time.Now()
	return instant{monotonic: now, wall: now.Round(0)}
}

// since returns how long ago another moment was, by the clock that says longer: the monotonic one
// or, where the machine has slept meanwhile, the wall clock.
func (i instant) since(then instant) time.Duration {
	return max(i.monotonic.Sub(then.monotonic), i.wall.Sub(then.wall))
}
