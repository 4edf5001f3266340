// SPDX-License-Identifier: Apache-2.0

package hubtest

import "time"

// SetPatience changes the hub's patience until its test ends, for waits that the test expects to fail.
func (h *Hub) SetPatience(d time.Duration) {
	before := h.site.options.patience
	h.site.options.patience = d
	h.tb.Cleanup(func() { h.site.options.patience = before })
}
