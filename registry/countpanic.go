// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// CountPanic counts a panic that a library has recovered, for the module whose code it was. main must append it to
// utilruntime.PanicHandlers, which is global to the process, before anything else runs.
func CountPanic(ctx context.Context, _ any) {
	if g := contain.GuardOf(ctx); g != nil {
		g.CountPanic()
	}
}
