// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Resource manages something that exists as long as an object, as the object specifies. Both methods must be
// idempotent: they are called repeatedly, by several goroutines for several objects, and the process may end
// anywhere. They must not wait for longer than a request: return an error, or request another pass with the Flow.
type Resource[O client.Object] interface {
	// Name is for errors, conditions, logs and metrics, unique in the set.
	Name() string
	// EnsureCreated creates or updates, also if nothing has changed.
	EnsureCreated(ctx context.Context, obj O) error
	// EnsureDeleted deletes. The object is the last observed state.
	EnsureDeleted(ctx context.Context, obj O) error
}
