// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Mutate returns the object to use, which may be the changed argument. An error aborts the reconcile, which is tried
// again.
type Mutate[T client.Object] func(ctx context.Context, obj T) (T, error)

// ClientHook mutates objects that a pair reads and writes, each hook the result of the one before. Nil fields do
// nothing.
type ClientHook[T client.Object] struct {
	Name                 string // Name names the hook in errors
	Upstream, Downstream Mutators[T]
}

// Mutators are the functions of a hook for one side.
type Mutators[T client.Object] struct {
	// Get is called before the next step is decided. A copy's marks must stay.
	Get Mutate[T]
	// Create, Update and Delete are called before the request. Delete must return the same object or an error.
	// Session.Apply creates or updates.
	Create, Update, Delete Mutate[T]
}

type sideOfHook string

const (
	upstreamSide   sideOfHook = "upstream"
	downstreamSide sideOfHook = "downstream"
)

type verb string

const (
	verbGet    verb = "get"
	verbCreate verb = "create"
	verbUpdate verb = "update"
	verbDelete verb = "delete"
)

// mutate calls the hooks for an object that was read, or before it is written.
func (r *reconciler[T]) mutate(ctx context.Context, side sideOfHook, v verb, obj T) (T, error) {
	for _, one := range r.options.Hooks {
		of := one.Downstream
		if side == upstreamSide {
			of = one.Upstream
		}
		f := map[verb]Mutate[T]{verbGet: of.Get, verbCreate: of.Create, verbUpdate: of.Update, verbDelete: of.Delete}[v]
		if f == nil {
			continue
		}
		mutated, err := f(ctx, obj)
		if err != nil {
			return obj, fmt.Errorf("hook %s: %s %s %s/%s: %w", one.Name, v, side, obj.GetNamespace(), obj.GetName(), err)
		}
		obj = mutated
	}
	return obj, nil
}
