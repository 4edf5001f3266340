// SPDX-License-Identifier: Apache-2.0

package registry

import "time"

// HastyGrace is how long the leases of a replaced app continue after Hasten.
const HastyGrace = 2 * time.Second

// Hasten lets preflights, the end of leases and the queues of an overload take less time than in a hub.
func (o *Options) Hasten() {
	o.paces = paces{Preflight: 500 * time.Millisecond, LeaseGrace: HastyGrace, Overload: 100 * time.Millisecond}
}
