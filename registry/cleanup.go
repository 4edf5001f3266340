// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
)

// CleanupStep reverts the changes of a module in a remote when the remote is removed for good. Provide steps with AsCleanup:
//
//	fx.Provide(registry.AsCleanup(func(remote client.Client) registry.CleanupStep {
//		return registry.CleanupStep{Name: "inventory/configmap", Order: 10, Run: ...}
//	}))
//
// Steps run one after the other, when all controllers of the app have ended, in the order of Order and then of Name.
// A step that fails does not keep the next ones from running. There is no second try: a remote may be gone forever,
// and a removal must end. A step must not return before it is done, and must return when its context ends, which is
// at the end of its share of the removal's time.
type CleanupStep struct {
	Name  string                          // Name identifies the step in logs and events: the module's name, a slash and a word.
	Order int                             // Order is the step's place: steps with a lower Order run first. Default 0.
	Run   func(ctx context.Context) error // Run does the work of the step.
}
