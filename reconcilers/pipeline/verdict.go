// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// Reasons of the conditions. A ReasonError adds its own reason.
const (
	// ReasonReady: all resources are as the object specifies.
	ReasonReady = "Ready"
	// ReasonPending: the object has got its finalizer, and its first pass has not ended.
	ReasonPending = "Pending"
	// ReasonPaused: an annotation pauses the pipeline for the object.
	ReasonPaused = "Paused"
	// ReasonCanceled: a resource, or the rest of the pass, was skipped. The message names the resource and the reason.
	ReasonCanceled = "Canceled"
	// ReasonFailed: a resource, or Set.Init, returned an error.
	ReasonFailed = "Failed"
	// ReasonPanicked: a resource, or Set.Init, panicked. The log says where.
	ReasonPanicked = "Panicked"
	// ReasonDeleting: the object is being deleted, and the pass kept the finalizer without an error.
	ReasonDeleting = "Deleting"
	// ReasonNoResourceSet: the object has the finalizer, but no set handles it.
	ReasonNoResourceSet = "NoResourceSet"
	// ReasonAmbiguousRoute: several sets handle the object, and so none does.
	ReasonAmbiguousRoute = "AmbiguousRoute"
)

// Condition types. Reconciling and Stalled exist only while they are True.
const (
	conditionReady       = "Ready"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

// verdict is the result of a reconcile of an object.
type verdict struct {
	ready   metav1.ConditionStatus
	also    string // the additional condition that is True, if any
	reason  string
	message string
	err     error         // for the queue
	after   time.Duration // the time until the next reconcile; Options.Resync if zero
	kept    bool          // the object is being deleted, and keeps the finalizer without an error
}

// judge returns the verdict on a pass that creates or updates.
func judge(p *pass, err error) verdict {
	switch {
	case err != nil:
		return failed(err)
	case p.canceled.isSet():
		return reconciling(ReasonCanceled, p.place()+": "+p.canceled.get())
	case len(p.skipped) > 0:
		return reconciling(ReasonCanceled, strings.Join(p.skipped, "; "))
	}
	return verdict{ready: metav1.ConditionTrue, reason: ReasonReady, message: "All resources are up to date"}
}

// judgeDeletion returns the verdict on a pass that deletes and did not succeed.
func judgeDeletion(p *pass, err error) verdict {
	switch {
	case err != nil:
		return failed(err)
	case p.canceled.isSet():
		return kept(p.place() + ": " + p.canceled.get())
	}
	return kept(p.kept.get())
}

// kept is the verdict on a deletion that has to be run again.
func kept(message string) verdict {
	v := reconciling(ReasonDeleting, message)
	v.kept = true
	return v
}

// failed is the verdict on an error. After a terminal error the object waits for a change.
func failed(err error) verdict {
	v := reconciling(ReasonFailed, err.Error())
	v.err = err
	if errors.Is(err, reconcile.TerminalError(nil)) {
		v.also = conditionStalled
	}
	if told, ok := errors.AsType[*ReasonError](err); ok {
		v.message = told.Message
		if object.IsReason(told.Reason) {
			v.reason = told.Reason
		}
	}
	return v
}

func unroutable(err error) verdict {
	v := failed(reconcile.TerminalError(err))
	v.reason, v.message = ReasonNoResourceSet, err.Error()
	if errors.Is(err, ErrAmbiguousResourceSet) {
		v.reason = ReasonAmbiguousRoute
	}
	return v
}

// panicked is the verdict on a pass that is panicking.
func panicked(p *pass) verdict {
	return reconciling(ReasonPanicked, p.place()+" panicked")
}

func reconciling(reason, message string) verdict {
	return verdict{ready: metav1.ConditionFalse, also: conditionReconciling, reason: reason, message: message}
}

func pending() verdict {
	return verdict{
		ready: metav1.ConditionUnknown, also: conditionReconciling,
		reason: ReasonPending, message: "The first pass has not ended", after: adopted,
	}
}

func paused() verdict {
	return verdict{ready: metav1.ConditionUnknown, reason: ReasonPaused, message: "An annotation pauses the object"}
}
