// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operation is the name of one method of a resource.
type operation string

const (
	opEnsureCreated     operation = "EnsureCreated"
	opEnsureDeleted     operation = "EnsureDeleted"
	opGetCurrentState   operation = "GetCurrentState"
	opGetDesiredState   operation = "GetDesiredState"
	opNewUpdatePatch    operation = "NewUpdatePatch"
	opNewDeletePatch    operation = "NewDeletePatch"
	opApplyCreateChange operation = "ApplyCreateChange"
	opApplyDeleteChange operation = "ApplyDeleteChange"
	opApplyUpdateChange operation = "ApplyUpdateChange"
)

// call is one step of one resource.
type call struct {
	resource string
	step
}

// decorator makes a call in its own way.
type decorator func(context.Context, call) error

// plainly is the decorator that adds nothing.
func plainly(ctx context.Context, c call) error { return c.do(ctx) }

// around returns a decorator that has d make the calls of inner.
func (d decorator) around(inner decorator) decorator {
	return func(ctx context.Context, c call) error {
		outer := c
		outer.do = func(ctx context.Context) error { return inner(ctx, c) }
		return d(ctx, outer)
	}
}

// divisible is a resource whose operations can be decorated one by one.
type divisible[O client.Object] interface {
	decorated(d decorator) Resource[O]
}

// decorate returns new resources that make their calls through d, in the same order and with the same
// names. Those it was given stay as they are.
func decorate[O client.Object](resources []Resource[O], d decorator) []Resource[O] {
	decorated := make([]Resource[O], len(resources))
	for i, r := range resources {
		if parts, ok := r.(divisible[O]); ok {
			decorated[i] = parts.decorated(d)
		} else {
			decorated[i] = &decoratedResource[O]{Resource: r, run: d}
		}
	}
	return decorated
}

func (r *crudResource[O, S, C]) decorated(d decorator) Resource[O] {
	other := *r
	other.run = d.around(r.run)
	return &other
}

// decoratedResource is a resource that is decorated as a whole.
type decoratedResource[O client.Object] struct {
	Resource[O]
	run decorator
}

func (r *decoratedResource[O]) EnsureCreated(ctx context.Context, obj O) error {
	return r.run(ctx, call{r.Name(), step{opEnsureCreated, func(ctx context.Context) error {
		return r.Resource.EnsureCreated(ctx, obj)
	}}})
}

func (r *decoratedResource[O]) EnsureDeleted(ctx context.Context, obj O) error {
	return r.run(ctx, call{r.Name(), step{opEnsureDeleted, func(ctx context.Context) error {
		return r.Resource.EnsureDeleted(ctx, obj)
	}}})
}

func (r *decoratedResource[O]) decorated(d decorator) Resource[O] {
	return &decoratedResource[O]{Resource: r.Resource, run: d.around(r.run)}
}
