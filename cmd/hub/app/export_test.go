// SPDX-License-Identifier: Apache-2.0

package app

import "time"

// WithHeartbeat returns options of a hub with this interval between heartbeats.
func WithHeartbeat(o Options, interval time.Duration) Options {
	o.heartbeat = interval
	return o
}

// WithForgetAfter returns options of a hub that removes what another replica has left after that time.
func WithForgetAfter(o Options, d time.Duration) Options {
	o.Sharing.forgetAfter = d
	return o
}
