// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"sync/atomic"
)

// Flow controls the rest of a pass. A resource gets it from the context of each call:
//
//	pipeline.FlowFrom(ctx).CancelReconciliation("the database is not up yet")
//
// A call takes effect before the next step: the next operation of a CRUD or the next resource. An error has precedence.
// Reasons are sentences for the conditions; only the first reason is kept. All methods may be called from several
// goroutines.
type Flow struct {
	pass     *pass
	canceled reason // the reason why this Flow's resource was canceled
}

// pass is the state that the flows of all resources in one pass share.
type pass struct {
	canceled, kept reason
	permissions    *permissions
	at             string   // the current resource, empty in Init; only the goroutine of the pass uses it
	skipped        []string // resources that were canceled, and why; the same
}

// permissions are shared by a pass and the passes within it.
type permissions struct {
	update, necessary, deletion atomic.Bool
}

type flowKey struct{}

// WithFlow returns a context with a new Flow. It begins a pass: nothing is canceled. The permissions of a Flow in ctx
// stay valid. A Reconciler, ProcessUpdate and ProcessDelete call WithFlow themselves; call it in tests of a resource,
// and to set permissions before ProcessUpdate.
func WithFlow(ctx context.Context) (context.Context, *Flow) {
	granted := &permissions{}
	if outer, ok := ctx.Value(flowKey{}).(*Flow); ok {
		granted = outer.pass.permissions
	}
	return (&pass{permissions: granted}).next(ctx)
}

// FlowFrom returns the Flow in ctx. It is never nil: outside of a pass it is a new Flow, which has no effect; use
// WithFlow to inspect a Flow.
func FlowFrom(ctx context.Context) *Flow {
	if flow, ok := ctx.Value(flowKey{}).(*Flow); ok {
		return flow
	}
	_, flow := WithFlow(ctx)
	return flow
}

// next returns the context of the next resource.
func (p *pass) next(ctx context.Context) (context.Context, *Flow) {
	flow := &Flow{pass: p}
	return context.WithValue(ctx, flowKey{}, flow), flow
}

// CancelReconciliation ends the pass without an error: neither the rest of this resource nor the
// resources after it run. The object stays not Ready, and a pass that deletes keeps the finalizer.
func (f *Flow) CancelReconciliation(reason string) { f.pass.canceled.set(reason) }

// ReconciliationCanceled reports whether CancelReconciliation was called in this pass.
func (f *Flow) ReconciliationCanceled() bool { return f.pass.canceled.isSet() }

// CancelResource skips the rest of this resource: the next resource runs. The object stays not Ready. A pass that
// deletes still removes the finalizer, unless KeepFinalizer was called, too.
func (f *Flow) CancelResource(reason string) { f.canceled.set(reason) }

// ResourceCanceled reports whether CancelResource was called for this resource.
func (f *Flow) ResourceCanceled() bool { return f.canceled.isSet() }

// KeepFinalizer makes a pass that deletes keep the finalizer and run again, with backoff: after 100 ms, and after twice
// the time with each further try, up to 5 minutes or Options.Resync. The log and an event contain the reason. In other
// passes it has no effect.
func (f *Flow) KeepFinalizer(reason string) { f.pass.kept.set(reason) }

// FinalizerKept reports whether KeepFinalizer was called in this pass.
func (f *Flow) FinalizerKept() bool { return f.pass.kept.isSet() }

// AllowUpdate permits the following resources to make disruptive changes. The resources check it with UpdateAllowed; the
// pipeline does not.
func (f *Flow) AllowUpdate() { f.pass.permissions.update.Store(true) }

// UpdateAllowed reports whether AllowUpdate was called.
func (f *Flow) UpdateAllowed() bool { return f.pass.permissions.update.Load() }

// RequestUpdate tells the following resources that an update is necessary.
func (f *Flow) RequestUpdate() { f.pass.permissions.necessary.Store(true) }

// UpdateNecessary reports whether RequestUpdate was called.
func (f *Flow) UpdateNecessary() bool { return f.pass.permissions.necessary.Load() }

// AllowDeletion permits the following resources to delete objects that cannot be created again.
func (f *Flow) AllowDeletion() { f.pass.permissions.deletion.Store(true) }

// DeletionAllowed reports whether AllowDeletion was called.
func (f *Flow) DeletionAllowed() bool { return f.pass.permissions.deletion.Load() }

// stopped reports whether the resource must stop.
func (f *Flow) stopped() bool { return f.ReconciliationCanceled() || f.ResourceCanceled() }

// keeps reports whether a deletion that returned no error is not complete.
func (p *pass) keeps() bool { return p.canceled.isSet() || p.kept.isSet() }

// place returns the current step of the pass.
func (p *pass) place() string {
	if p.at == "" {
		return "Init"
	}
	return "resource " + p.at
}

// reason is a text that is set at most once.
type reason struct{ text atomic.Pointer[string] }

func (r *reason) set(text string) { r.text.CompareAndSwap(nil, &text) }

func (r *reason) isSet() bool { return r.text.Load() != nil }

// get returns the text, or an empty string.
func (r *reason) get() string {
	if text := r.text.Load(); text != nil {
		return *text
	}
	return ""
}
