// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resource is one step of a pipeline: it manages something that exists as long as an object exists, with the content
// that the object specifies. Both methods are idempotent: they are called again and again for one object, by several
// goroutines for several objects, and the end of the process may interrupt them anywhere.
//
// A method that cannot finish returns an error, or requests another pass with the Flow in its context. It does not wait
// for anything that takes longer than a request: it is called again.
type Resource[O client.Object] interface {
	// Name names the resource in errors, conditions, logs and metrics. No other resource of the set has it.
	Name() string
	// EnsureCreated creates or updates the resource as the object specifies, whether the object is new, changed or
	// unchanged.
	EnsureCreated(ctx context.Context, obj O) error
	// EnsureDeleted deletes the resource. The object is the last observed state.
	EnsureDeleted(ctx context.Context, obj O) error
}
