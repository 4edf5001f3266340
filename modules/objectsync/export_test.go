// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"time"

	"github.com/clusterfx/clusterfx/registry"
)

// Quick is the module with short periods.
func Quick() registry.Module {
	return moduleWith(periods{
		report: time.Second, settling: 5 * time.Second, settled: 2 * time.Second, lack: 2 * time.Second, recheck: time.Second,
	})
}
