// SPDX-License-Identifier: Apache-2.0

package app

import "time"

// WithStuckAfter returns options of a hub whose controllers are stuck after that time.
func WithStuckAfter(o Options, d time.Duration) Options {
	o.stuckAfter = d
	return o
}

// WithForgetAfter returns options of a hub that removes what another replica has left after that time.
func WithForgetAfter(o Options, d time.Duration) Options {
	o.Sharing.forgetAfter = d
	return o
}
