// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Mutate changes an object before it is used: it returns the object to use, which may be the changed argument. An error aborts
// the reconcile, which is tried again.
type Mutate[T client.Object] func(ctx context.Context, obj T) (T, error)

// ClientHook mutates the objects that a pair reads and writes. Hooks are called in their order, each with the result of the one
// before. A field that is nil does nothing.
type ClientHook[T client.Object] struct {
	// Name names the hook in errors.
	Name string
	// Upstream and Downstream are for the objects of one side each.
	Upstream, Downstream Mutators[T]
}

// Mutators are the functions of a hook for one side.
type Mutators[T client.Object] struct {
	// Get gets an object that was read, before the next step is decided. The marks of a copy must stay.
	Get Mutate[T]
	// Create, Update and Delete get an object before the request. The result of Delete must be the same object: it may only
	// return an error. With Session.Apply an object that does not exist is created, and another one updated.
	Create, Update, Delete Mutate[T]
}

// sideOfHook is a side of a pair.
type sideOfHook string

const (
	upstreamSide   sideOfHook = "upstream"
	downstreamSide sideOfHook = "downstream"
)

// verb is a kind of request.
type verb string

const (
	verbCreate verb = "create"
	verbUpdate verb = "update"
	verbDelete verb = "delete"
)

// hooks are the hooks of a syncer.
type hooks[T client.Object] []ClientHook[T]

func (r *reconciler[T]) hooks() hooks[T] { return r.options.Hooks }

// get calls the hooks for an object that was read.
func (h hooks[T]) get(ctx context.Context, side sideOfHook, obj T) (T, error) {
	return h.call(ctx, obj, func(one ClientHook[T]) (string, Mutate[T]) {
		return "get " + string(side), one.of(side).Get
	})
}

// write calls the hooks for an object that is to be written.
func (h hooks[T]) write(ctx context.Context, side sideOfHook, v verb, obj T) (T, error) {
	return h.call(ctx, obj, func(one ClientHook[T]) (string, Mutate[T]) {
		of := one.of(side)
		f := map[verb]Mutate[T]{verbCreate: of.Create, verbUpdate: of.Update, verbDelete: of.Delete}[v]
		return string(v) + " " + string(side), f
	})
}

func (c ClientHook[T]) of(side sideOfHook) Mutators[T] {
	if side == upstreamSide {
		return c.Upstream
	}
	return c.Downstream
}

func (h hooks[T]) call(ctx context.Context, obj T, choose func(ClientHook[T]) (string, Mutate[T])) (T, error) {
	for _, one := range h {
		what, f := choose(one)
		if f == nil {
			continue
		}
		mutated, err := f(ctx, obj)
		if err != nil {
			return obj, fmt.Errorf("hook %s: %s %s/%s: %w", one.Name, what, obj.GetNamespace(), obj.GetName(), err)
		}
		obj = mutated
	}
	return obj, nil
}
