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
// A step has a share of the removal's time. If it fails with an error of the network or the API server that may pass (a
// conflict, 429, 5xx), it runs again until its share ends; after any other error there is no second try, since a removal must
// end. A step that fails does not keep the next ones from running. It must not return before it is done, and must
// return when its context ends.
type CleanupStep struct {
	Name  string                          // Name identifies the step in logs and events: the module's name, a slash and a word.
	Order int                             // Order is the step's place: steps with a lower Order run first. Default 0.
	Run   func(ctx context.Context) error // Run does the work of the step.
}
