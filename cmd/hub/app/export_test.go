// SPDX-License-Identifier: Apache-2.0

package app

import "time"

// WithHeartbeat returns options of a hub with this interval between heartbeats.
func WithHeartbeat(o Options, interval time.Duration) Options {
	o.heartbeat = interval
	return o
}
