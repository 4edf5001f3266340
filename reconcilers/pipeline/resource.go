// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resource is one step of a pipeline: something that is to exist as long as an object exists, and to
// be as the object says. Both methods are idempotent: they are called again and again for one object,
// by several goroutines for several objects, and may be cut off anywhere by the end of the process.
//
// A method that cannot finish returns an error, or waits for another pass with the Flow in its context.
// It does not wait itself for what takes longer than a request: it is called again.
type Resource[O client.Object] interface {
	// Name names the resource in errors, conditions, logs and metrics. No other resource of the set has it.
	Name() string
	// EnsureCreated makes the resource what the object says, whether the object is new, was changed, or
	// is the same as before.
	EnsureCreated(ctx context.Context, obj O) error
	// EnsureDeleted makes the resource go away. The object is the last observed state.
	EnsureDeleted(ctx context.Context, obj O) error
}
