// SPDX-License-Identifier: Apache-2.0

package hubtest

import "time"

// SetPatience changes the hub's patience until its test ends, for waits that the test expects to fail.
func (h *Hub) SetPatience(d time.Duration) {
	before := h.site.options.patience
	h.site.options.patience = d
	h.tb.Cleanup(func() { h.site.options.patience = before })
}

// LeakPatience is for a hub that the test expects to leave goroutines behind.
func LeakPatience(d time.Duration) Option {
	return func(o *options) { o.leakPatience = d }
}
