// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// within ends the context with the life of the hub part, too.
func (r *Registry) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.by == nil {
		return context.WithCancel(ctx)
	}
	return transport.Within(ctx, r.by.App.Context)
}

func (r *Registry) contained(what string, f func(Event)) func(Event) {
	if r.by == nil {
		return func(e Event) {
			if err := panics.Catch(func() error { f(e); return nil }); err != nil {
				panics.WithStack(r.log, err).Error(err, "Code of the hub failed on an event", "function", what, "cluster", string(e.Name))
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
