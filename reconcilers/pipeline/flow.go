// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"sync/atomic"
)

// Flow controls the rest of a pass. A resource gets it from its context:
//
//	pipeline.FlowFrom(ctx).CancelReconciliation("the database is not up yet")
//
// A call takes effect before the next operation of a CRUD or the next resource. An error has precedence. Reasons are
// sentences for the conditions; the first one is kept. Any goroutine may call the methods.
type Flow struct {
	pass     *pass
	canceled reason // of this Flow's resource
}

type pass struct {
	canceled, kept reason
	permissions    *permissions
	at             string   // current resource, empty in Init; for the goroutine of the pass
	skipped        []string // canceled resources, and why; the same
}

// permissions also hold for passes within a pass.
type permissions struct {
	update, necessary, deletion atomic.Bool
}

type flowKey struct{}

// WithFlow begins a pass: nothing is canceled; permissions of a Flow in ctx stay. A Reconciler, ProcessUpdate and
// ProcessDelete call it; call it in tests, and to set permissions before ProcessUpdate.
func WithFlow(ctx context.Context) (context.Context, *Flow) {
	granted := &permissions{}
	if outer, ok := ctx.Value(flowKey{}).(*Flow); ok {
		granted = outer.pass.permissions
	}
	return (&pass{permissions: granted}).next(ctx)
}

// FlowFrom returns the Flow in ctx, never nil: outside of a pass a new one without effect.
func FlowFrom(ctx context.Context) *Flow {
	if flow, ok := ctx.Value(flowKey{}).(*Flow); ok {
		return flow
	}
	_, flow := WithFlow(ctx)
	return flow
}

func (p *pass) next(ctx context.Context) (context.Context, *Flow) {
	flow := &Flow{pass: p}
	return context.WithValue(ctx, flowKey{}, flow), flow
}

// CancelReconciliation ends the pass without an error: nothing further runs. The object stays not Ready, and a
// deletion keeps the finalizer.
func (f *Flow) CancelReconciliation(reason string) { f.pass.canceled.set(reason) }

// ReconciliationCanceled reports whether CancelReconciliation was called in this pass.
func (f *Flow) ReconciliationCanceled() bool { return f.pass.canceled.isSet() }

// CancelResource skips the rest of this resource. The object stays not Ready. A deletion still removes the finalizer,
// unless KeepFinalizer was called, too.
func (f *Flow) CancelResource(reason string) { f.canceled.set(reason) }

// ResourceCanceled reports whether CancelResource was called for this resource.
func (f *Flow) ResourceCanceled() bool { return f.canceled.isSet() }

// KeepFinalizer makes a deletion keep the finalizer and run again, after 100 ms and then twice as long, up to 5
// minutes or Options.Resync. The log and an event have the reason. In other passes it has no effect.
func (f *Flow) KeepFinalizer(reason string) { f.pass.kept.set(reason) }

// FinalizerKept reports whether KeepFinalizer was called in this pass.
func (f *Flow) FinalizerKept() bool { return f.pass.kept.isSet() }

// AllowUpdate permits the following resources to make disruptive changes. They must check UpdateAllowed; the pipeline
// does not.
func (f *Flow) AllowUpdate() { f.pass.permissions.update.Store(true) }

// UpdateAllowed reports whether AllowUpdate was called.
func (f *Flow) UpdateAllowed() bool { return f.pass.permissions.update.Load() }

// RequestUpdate tells the following resources that an update is necessary.
func (f *Flow) RequestUpdate() { f.pass.permissions.necessary.Store(true) }

// UpdateNecessary reports whether RequestUpdate was called.
func (f *Flow) UpdateNecessary() bool { return f.pass.permissions.necessary.Load() }

// AllowDeletion permits the following resources to delete what cannot be created again.
func (f *Flow) AllowDeletion() { f.pass.permissions.deletion.Store(true) }

// DeletionAllowed reports whether AllowDeletion was called.
func (f *Flow) DeletionAllowed() bool { return f.pass.permissions.deletion.Load() }

func (f *Flow) stopped() bool { return f.ReconciliationCanceled() || f.ResourceCanceled() }

// keeps reports whether a deletion without an error is not complete.
func (p *pass) keeps() bool { return p.canceled.isSet() || p.kept.isSet() }

func (p *pass) place() string {
	if p.at == "" {
		return "Init"
	}
	return "resource " + p.at
}

type reason struct{ text atomic.Pointer[string] }

func (r *reason) set(text string) { r.text.CompareAndSwap(nil, &text) }

func (r *reason) isSet() bool { return r.text.Load() != nil }

func (r *reason) get() string {
	if text := r.text.Load(); text != nil {
		return *text
	}
	return ""
}
