// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

func present() shards.Instant {
	now := time.Now()
	return shards.Instant{Monotonic: now, Wall: now.Round(0)}
}
