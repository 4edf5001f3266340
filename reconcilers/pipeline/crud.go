// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CRUD is a resource in parts: it compares a current state S with a desired state S and computes changes C. The
// Planner decides, the Applier acts, NewCRUDResource combines them.
type CRUD[O client.Object, S, C any] interface {
	// Name is Resource.Name.
	Name() string
	Planner[O, S, C]
	Applier[O, C]
}

// Planner decides on changes, and makes none.
type Planner[O client.Object, S, C any] interface {
	// GetCurrentState returns the current state.
	GetCurrentState(ctx context.Context, obj O) (S, error)
	// GetDesiredState depends on the object only.
	GetDesiredState(ctx context.Context, obj O) (S, error)
	// NewUpdatePatch returns the changes from current to desired; nil for none.
	NewUpdatePatch(ctx context.Context, obj O, current, desired S) (*Patch[C], error)
	// NewDeletePatch returns the changes that delete all of current.
	NewDeletePatch(ctx context.Context, obj O, current, desired S) (*Patch[C], error)
}

// Applier makes the changes that are set in the Patch.
type Applier[O client.Object, C any] interface {
	ApplyCreateChange(ctx context.Context, obj O, change C) error
	ApplyDeleteChange(ctx context.Context, obj O, change C) error
	ApplyUpdateChange(ctx context.Context, obj O, change C) error
}

// Order is that of the changes of a Patch.
type Order int

const (
	// CreateDeleteUpdate is operatorkit's order, and the zero value.
	CreateDeleteUpdate Order = iota
	// CreateUpdateDelete is for objects that must no longer be in use when they are deleted.
	CreateUpdateDelete
)

// NewCRUDResource returns a Resource that reads both states, computes a Patch, and applies it in this order. An error
// ends it. Before each step it checks the Flow and the context, so a cancellation stops between two changes. The
// error is ErrInvalidConfig.
func NewCRUDResource[O client.Object, S, C any](ops CRUD[O, S, C], order Order) (Resource[O], error) {
	switch {
	case ops == nil:
		return nil, fmt.Errorf("%w: a CRUD resource needs operations", ErrInvalidConfig)
	case ops.Name() == "":
		return nil, fmt.Errorf("%w: a CRUD resource needs a name", ErrInvalidConfig)
	case order != CreateDeleteUpdate && order != CreateUpdateDelete:
		return nil, fmt.Errorf("%w: CRUD resource %s: there is no order %d", ErrInvalidConfig, ops.Name(), order)
	}
	return &crudResource[O, S, C]{ops: ops, order: order, run: plainly[O]}, nil
}

type crudResource[O client.Object, S, C any] struct {
	ops   CRUD[O, S, C]
	order Order
	run   Wrapper[O] // every operation
}

func (r *crudResource[O, S, C]) Name() string { return r.ops.Name() }

func (r *crudResource[O, S, C]) EnsureCreated(ctx context.Context, obj O) error {
	return r.ensure(ctx, obj, OperationNewUpdatePatch, r.ops.NewUpdatePatch)
}

func (r *crudResource[O, S, C]) EnsureDeleted(ctx context.Context, obj O) error {
	return r.ensure(ctx, obj, OperationNewDeletePatch, r.ops.NewDeletePatch)
}

func (r *crudResource[O, S, C]) ensure(
	ctx context.Context, obj O, planning Operation, plan func(context.Context, O, S, S) (*Patch[C], error),
) error {
	if _, ok := ctx.Value(flowKey{}).(*Flow); !ok {
		ctx, _ = WithFlow(ctx)
	}
	var current, desired S
	var patch *Patch[C]
	err := r.steps(ctx, obj,
		step{OperationGetCurrentState, func(ctx context.Context) (err error) {
			current, err = r.ops.GetCurrentState(ctx, obj)
			return err
		}},
		step{OperationGetDesiredState, func(ctx context.Context) (err error) {
			desired, err = r.ops.GetDesiredState(ctx, obj)
			return err
		}},
		step{planning, func(ctx context.Context) (err error) {
			patch, err = plan(ctx, obj, current, desired)
			return err
		}},
	)
	if err != nil || patch == nil {
		return err
	}
	return r.steps(ctx, obj, r.changes(obj, patch)...)
}

type step struct {
	operation Operation
	do        func(context.Context) error
}

func (r *crudResource[O, S, C]) steps(ctx context.Context, obj O, steps ...step) error {
	flow := FlowFrom(ctx)
	for _, s := range steps {
		if flow.stopped() {
			return nil
		}
		if err := ctx.Err(); err != nil { // An operation may ignore the context, and the controller may have stopped.
			return fmt.Errorf("%s: not started: %w", s.operation, err)
		}
		if err := r.run(ctx, Call[O]{r.Name(), s.operation, obj}, s.do); err != nil {
			return fmt.Errorf("%s: %w", s.operation, err)
		}
	}
	return nil
}

func (r *crudResource[O, S, C]) changes(obj O, patch *Patch[C]) []step {
	steps := make([]step, 0, 3)
	add := func(name Operation, change *C, apply func(context.Context, O, C) error) {
		if change != nil {
			steps = append(steps, step{name, func(ctx context.Context) error { return apply(ctx, obj, *change) }})
		}
	}
	add(OperationApplyCreateChange, patch.create, r.ops.ApplyCreateChange)
	if r.order == CreateUpdateDelete {
		add(OperationApplyUpdateChange, patch.update, r.ops.ApplyUpdateChange)
	}
	add(OperationApplyDeleteChange, patch.remove, r.ops.ApplyDeleteChange)
	if r.order == CreateDeleteUpdate {
		add(OperationApplyUpdateChange, patch.update, r.ops.ApplyUpdateChange)
	}
	return steps
}
