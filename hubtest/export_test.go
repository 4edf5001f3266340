// SPDX-License-Identifier: Apache-2.0

package hubtest

import "time"

// SetPatience changes the hub's patience, for a wait that is to fail.
func (h *Hub) SetPatience(d time.Duration) { h.site.options.patience = d }
