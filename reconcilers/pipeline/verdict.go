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

// Reasons of the conditions, besides those of a ReasonError.
const (
	// ReasonReady: all resources are as specified.
	ReasonReady = "Ready"
	// ReasonPending: the finalizer is there, and the first pass has not ended.
	ReasonPending = "Pending"
	// ReasonPaused: an annotation pauses the pipeline.
	ReasonPaused = "Paused"
	// ReasonCanceled: a resource, or the rest of the pass, was skipped. The message says which and why.
	ReasonCanceled = "Canceled"
	// ReasonFailed: a resource or Set.Init returned an error.
	ReasonFailed = "Failed"
	// ReasonPanicked: a resource or Set.Init panicked. The log says where.
	ReasonPanicked = "Panicked"
	// ReasonDeleting: a deletion keeps the finalizer, without an error.
	ReasonDeleting = "Deleting"
	// ReasonNoResourceSet: no set handles an object with the finalizer.
	ReasonNoResourceSet = "NoResourceSet"
	// ReasonAmbiguousRoute: several sets handle the object, so none does.
	ReasonAmbiguousRoute = "AmbiguousRoute"
)

// Reconciling and Stalled exist only while they are True.
const (
	conditionReady       = "Ready"
	conditionReconciling = "Reconciling"
	conditionStalled     = "Stalled"
)

type verdict struct {
	ready   metav1.ConditionStatus
	also    string
	reason  string
	message string
	err     error
	after   time.Duration
	kept    bool // a deletion keeps the finalizer, without an error
}

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

func judgeDeletion(p *pass, err error) verdict {
	switch {
	case err != nil:
		return failed(err)
	case p.canceled.isSet():
		return kept(p.place() + ": " + p.canceled.get())
	}
	return kept(p.kept.get())
}

func kept(message string) verdict {
	v := reconciling(ReasonDeleting, message)
	v.kept = true
	return v
}

// failed: after a terminal error the object waits for a change.
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
