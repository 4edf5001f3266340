// SPDX-License-Identifier: Apache-2.0

package lease

import "time"

type instant struct {
	monotonic time.Time // its monotonic reading counts
	wall      time.Time // has no monotonic reading
}

func present() instant {
	now := time.Now()
	return instant{monotonic: now, wall: now.Round(0)}
}

// since uses the clock that says longer: the monotonic one or, if the machine has slept, the wall clock.
func (i instant) since(then instant) time.Duration {
	return max(i.monotonic.Sub(then.monotonic), i.wall.Sub(then.wall))
}
