// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"sync/atomic"
)

// Flow is how a resource says how the pass it is in goes on. It is in the context of every call:
//
//	pipeline.FlowFrom(ctx).CancelReconciliation("the database is not up yet")
//
// What is said takes effect before the next step, that is the next operation of a CRUD or the next
// resource. An error beats it. Reasons are sentences for the conditions; of several the first one stays.
// All methods may be called from several goroutines.
type Flow struct {
	pass     *pass
	canceled reason // the resource that this Flow was made for
}

// pass is what the flows of all resources in one pass share.
type pass struct {
	canceled, kept reason
	permissions    *permissions
	at             string   // the resource at hand, none in Init; only the goroutine of the pass uses it
	skipped        []string // resources that were canceled, and why; the same
}

// permissions outlive a pass within a pass.
type permissions struct {
	update, necessary, deletion atomic.Bool
}

type flowKey struct{}

// WithFlow returns a context with a new Flow. It begins a pass: nothing is canceled. What is allowed
// stays as it was in ctx. A Reconciler, ProcessUpdate and ProcessDelete call it by themselves; it is for
// tests of a resource, and for allowing something before ProcessUpdate.
func WithFlow(ctx context.Context) (context.Context, *Flow) {
	granted := &permissions{}
	if outer, ok := ctx.Value(flowKey{}).(*Flow); ok {
		granted = outer.pass.permissions
	}
	return (&pass{permissions: granted}).next(ctx)
}

// FlowFrom returns the Flow in ctx. It is never nil: outside of a pass it is a new one, which nobody else
// looks at; WithFlow makes one that can be looked at.
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

// CancelResource leaves out the rest of this resource: the next one runs. The object stays not Ready. A
// pass that deletes goes on to remove the finalizer, unless KeepFinalizer was called, too.
func (f *Flow) CancelResource(reason string) { f.canceled.set(reason) }

// ResourceCanceled reports whether CancelResource was called for this resource.
func (f *Flow) ResourceCanceled() bool { return f.canceled.isSet() }

// KeepFinalizer makes a pass that deletes keep the finalizer and be run again, with backoff: after 100 ms, and twice as
// long each time, up to 5 minutes or Options.Resync. The reason is logged, and an event. In other passes it has no
// meaning.
func (f *Flow) KeepFinalizer(reason string) { f.pass.kept.set(reason) }

// FinalizerKept reports whether KeepFinalizer was called in this pass.
func (f *Flow) FinalizerKept() bool { return f.pass.kept.isSet() }

// AllowUpdate tells the resources after this one that they may change what is disruptive to change. It is
// for them to ask; the pipeline does not.
func (f *Flow) AllowUpdate() { f.pass.permissions.update.Store(true) }

// UpdateAllowed reports whether AllowUpdate was called.
func (f *Flow) UpdateAllowed() bool { return f.pass.permissions.update.Load() }

// RequestUpdate tells the resources after this one that there is something to change.
func (f *Flow) RequestUpdate() { f.pass.permissions.necessary.Store(true) }

// UpdateNecessary reports whether RequestUpdate was called.
func (f *Flow) UpdateNecessary() bool { return f.pass.permissions.necessary.Load() }

// AllowDeletion tells the resources after this one that they may delete what cannot be made again.
func (f *Flow) AllowDeletion() { f.pass.permissions.deletion.Store(true) }

// DeletionAllowed reports whether AllowDeletion was called.
func (f *Flow) DeletionAllowed() bool { return f.pass.permissions.deletion.Load() }

// stopped reports whether the resource is not to go on.
func (f *Flow) stopped() bool { return f.ReconciliationCanceled() || f.ResourceCanceled() }

// keeps reports whether a pass that deleted without an error did not finish.
func (p *pass) keeps() bool { return p.canceled.isSet() || p.kept.isSet() }

// place says where the pass is.
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

// get returns the text, or none.
func (r *reason) get() string {
	if text := r.text.Load(); text != nil {
		return *text
	}
	return ""
}
