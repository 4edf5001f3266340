// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Copy is the Syncer that most kinds need: the whole object goes down, its status comes back.
type Copy[T client.Object] struct {
	// Called names the syncer. Required.
	Called string
	// Status writes the copy's status to the original.
	Status bool
	// Mutate changes the result of Session.Translate before it is applied. An error, such as LaterError, stops that. Default: nothing.
	Mutate func(ctx context.Context, up, copied T) error
	// Adopt reports whether an object with the name becomes the copy. Default: none does.
	Adopt func(ctx context.Context, up, down T) bool
}

// Name returns the name of the syncer.
func (c *Copy[T]) Name() string { return c.Called }

// SyncDown makes the copy.
func (c *Copy[T]) SyncDown(ctx context.Context, e Down[T]) (reconcile.Result, error) {
	return reconcile.Result{}, c.down(ctx, e.Upstream, e.Session)
}

// Sync brings the copy and the original's status up to date. A direction that fails does not stop the other.
func (c *Copy[T]) Sync(ctx context.Context, e Both[T]) (reconcile.Result, error) {
	var up error
	if c.Status {
		up = e.ApplyStatus(ctx, e.Downstream)
	}
	return reconcile.Result{}, BothDirections(up, c.down(ctx, e.Upstream, e.Session))
}

func (c *Copy[T]) down(ctx context.Context, up T, s *Session[T]) error {
	copied := s.Translate(up)
	if c.Mutate != nil {
		if err := c.Mutate(ctx, up, copied); err != nil {
			return err
		}
	}
	return s.Apply(ctx, copied)
}

// Import calls Adopt.
func (c *Copy[T]) Import(ctx context.Context, up, down T) bool {
	return c.Adopt != nil && c.Adopt(ctx, up, down)
}
