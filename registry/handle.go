// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
)

// within ends the context with the life of the hub part, too.
func (r *Registry) within(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.by == nil {
		return ctx, cancel
	}
	life := r.by.App.Context
	unhook := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func(cause error) {
		unhook()
		cancel(cause)
	}
}

func (r *Registry) contained(what string, f func(Event)) func(Event) {
	if r.by == nil {
		return func(e Event) {
			err := panics.Catch(func() error { f(e); return nil })
			var panicked *panics.Error
			if errors.As(err, &panicked) {
				r.log.Error(err, "Code of the hub failed on an event", "function", what, "cluster", string(e.Name),
					"stack", string(panicked.Stack))
			}
		}
	}
	return func(e Event) {
		if !r.by.IsBroken() {
			r.by.Call(what, func() { f(e) })
		}
	}
}

// CountPanic counts a panic that a library has recovered, for the module whose code it was. main must append it to
// utilruntime.PanicHandlers, which is global to the process, before anything else runs.
func CountPanic(ctx context.Context, _ any) {
	if g := contain.GuardOf(ctx); g != nil {
		g.CountPanic()
	}
}
