// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// Limiter is a deletes.Limiter for a target.
type Limiter struct {
	Guard  *Guard
	Target Target
	// Context returns that of a delete or create.
	Context func(context.Context) context.Context
}

var _ deletes.Limiter = Limiter{}

// Admit is that of deletes.Limiter.
func (l Limiter) Admit(ctx context.Context, what schema.GroupResource, name string, uid types.UID) (func(deleted bool), error) {
	ctx = l.Context(ctx)
	one, o := l.Guard.on(ctx, l.Target, what), &l.Guard.options
	ask, kind, err := one.ask(ctx)
	if err != nil {
		return nil, err
	}
	var ticket *ledger.Ticket
	if ask != nil {
		if err := one.know(ctx); err != nil {
			return nil, err
		}
		ask.Name, ask.UID = name[:min(len(name), maxName)], uid
		if ticket, err = one.admit(ctx, *ask); err != nil {
			return nil, err
		}
	}
	return func(deleted bool) {
		switch {
		case deleted && (ticket != nil || kind != ""):
			o.Counted(one.key.Module, one.key.Target, kind, 1)
		case !deleted && ticket != nil:
			ticket.Refund(o.Now())
		}
	}, nil
}

// Created is that of deletes.Limiter.
func (l Limiter) Created(ctx context.Context, what schema.GroupResource) {
	l.Guard.on(l.Context(ctx), l.Target, what).created()
}
