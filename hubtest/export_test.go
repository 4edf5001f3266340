// SPDX-License-Identifier: Apache-2.0

package hubtest

import "time"

// SetPatience changes the hub's patience, for waits that the test expects to fail.
func (h *Hub) SetPatience(d time.Duration) { h.site.options.patience = d }
