// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operation names a method of a resource.
type Operation string

// A CRUD resource has the seven that are not called Ensure; any other has the other two.
const (
	OperationEnsureCreated     Operation = "EnsureCreated"
	OperationEnsureDeleted     Operation = "EnsureDeleted"
	OperationGetCurrentState   Operation = "GetCurrentState"
	OperationGetDesiredState   Operation = "GetDesiredState"
	OperationNewUpdatePatch    Operation = "NewUpdatePatch"
	OperationNewDeletePatch    Operation = "NewDeletePatch"
	OperationApplyCreateChange Operation = "ApplyCreateChange"
	OperationApplyDeleteChange Operation = "ApplyDeleteChange"
	OperationApplyUpdateChange Operation = "ApplyUpdateChange"
)

// Call is one call of an operation.
type Call[O client.Object] struct {
	Resource  string
	Operation Operation
	Object    O
}

// Wrapper wraps a call: next calls the operation, and may be called with another context, several times, or not at
// all. Several goroutines call a Wrapper.
type Wrapper[O client.Object] func(ctx context.Context, c Call[O], next func(context.Context) error) error

// WithWrapper returns new resources whose operations go through w: the seven of a CRUD resource, and EnsureCreated
// and EnsureDeleted of any other. The wrapper that was added last is called first. The error is ErrInvalidConfig
// without a wrapper.
func WithWrapper[O client.Object](resources []Resource[O], w Wrapper[O]) ([]Resource[O], error) {
	if w == nil {
		return nil, fmt.Errorf("%w: a wrapper is needed", ErrInvalidConfig)
	}
	return wrap(resources, w), nil
}

func plainly[O client.Object](ctx context.Context, _ Call[O], next func(context.Context) error) error {
	return next(ctx)
}

func (w Wrapper[O]) around(inner Wrapper[O]) Wrapper[O] {
	return func(ctx context.Context, c Call[O], next func(context.Context) error) error {
		return w(ctx, c, func(ctx context.Context) error { return inner(ctx, c, next) })
	}
}

// divisible resources are wrapped operation by operation.
type divisible[O client.Object] interface {
	wrapped(w Wrapper[O]) Resource[O]
}

func wrap[O client.Object](resources []Resource[O], w Wrapper[O]) []Resource[O] {
	wrapped := make([]Resource[O], len(resources))
	for i, r := range resources {
		if parts, ok := r.(divisible[O]); ok {
			wrapped[i] = parts.wrapped(w)
		} else {
			wrapped[i] = &wrappedResource[O]{Resource: r, run: w}
		}
	}
	return wrapped
}

func (r *crudResource[O, S, C]) wrapped(w Wrapper[O]) Resource[O] {
	other := *r
	other.run = w.around(r.run)
	return &other
}

type wrappedResource[O client.Object] struct {
	Resource[O]
	run Wrapper[O]
}

func (r *wrappedResource[O]) EnsureCreated(ctx context.Context, obj O) error {
	return r.run(ctx, Call[O]{r.Name(), OperationEnsureCreated, obj}, func(ctx context.Context) error {
		return r.Resource.EnsureCreated(ctx, obj)
	})
}

func (r *wrappedResource[O]) EnsureDeleted(ctx context.Context, obj O) error {
	return r.run(ctx, Call[O]{r.Name(), OperationEnsureDeleted, obj}, func(ctx context.Context) error {
		return r.Resource.EnsureDeleted(ctx, obj)
	})
}

func (r *wrappedResource[O]) wrapped(w Wrapper[O]) Resource[O] {
	return &wrappedResource[O]{Resource: r.Resource, run: w.around(r.run)}
}
