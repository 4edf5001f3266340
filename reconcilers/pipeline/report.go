// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

const (
	maxMessage = 1024            // in bytes; the API server accepts 32 KiB
	lastWords  = 5 * time.Second // lastWords bounds the report of a pass whose deadline has passed
)

// report writes changed conditions and an event. The error is a conflict if the object has changed since they were
// compared.
func (r *Reconciler[O]) report(ctx context.Context, s subject[O], v verdict) error {
	if apierrors.IsConflict(v.err) {
		return nil // A resource used an outdated state. The retry corrects that sooner than anyone can read a report.
	}
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
	case err != nil:
		return nil // Another process reports.
	}
	if r.options.Conditions == nil {
		r.tell(s, v)
		return nil
	}
	has := r.options.Conditions(s.obj)
	wanted := r.conditions(s, v, has)
	if r.areReported(wanted, has) {
		return nil
	}
	if err := r.writeStatus(ctx, s, wanted); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write the conditions of %s %s: %w", r.gvk.Kind, s.key, err))
	}
	r.tell(s, v)
	return nil
}

func (r *Reconciler[O]) tell(s subject[O], v verdict) {
	kind, action, note := corev1.EventTypeWarning, "Reconcile", ""
	if told, ok := errors.AsType[*ReasonError](v.err); ok {
		note = told.Message
	} else if v.kept {
		kind, action, note = corev1.EventTypeNormal, "Delete", v.message
	} else {
		return
	}
	if r.options.Events != nil {
		r.options.Events.Eventf(object.InAnyVersion(r.client.Scheme(), s.obj, ""), nil, kind, v.reason, action, "%s",
			object.Shortened(note, object.MaxNote))
	}
}

func (r *Reconciler[O]) conditions(s subject[O], v verdict, has []metav1.Condition) []metav1.Condition {
	ready := metav1.Condition{
		Type: r.options.ConditionPrefix + conditionReady, Status: v.ready,
		Reason: v.reason, Message: object.Shortened(v.message, maxMessage),
		ObservedGeneration: s.generation, LastTransitionTime: metav1.Now(),
	}
	wanted := []metav1.Condition{ready}
	if v.also != "" {
		also := ready
		also.Type, also.Status = r.options.ConditionPrefix+v.also, metav1.ConditionTrue
		wanted = append(wanted, also)
	}
	for i := range wanted {
		if old := meta.FindStatusCondition(has, wanted[i].Type); old != nil && old.Status == wanted[i].Status {
			wanted[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	return wanted
}

func (r *Reconciler[O]) areReported(wanted, has []metav1.Condition) bool {
	for _, kind := range []string{conditionReady, conditionReconciling, conditionStalled} {
		kind = r.options.ConditionPrefix + kind
		want, found := meta.FindStatusCondition(wanted, kind), meta.FindStatusCondition(has, kind)
		if (want == nil) != (found == nil) || want != nil && *want != *found {
			return false
		}
	}
	return true
}

// writeStatus carries the resourceVersion, so it changes the object that the pass has read.
func (r *Reconciler[O]) writeStatus(ctx context.Context, s subject[O], conditions []metav1.Condition) error {
	before := s.obj.GetResourceVersion()
	applied, err := object.ApplyStatus(ctx, client.WithFieldOwner(r.client, r.options.identity()), s.obj, map[string]any{"conditions": conditions})
	if err == nil && applied.GetResourceVersion() != before {
		r.replaced.Add(s.key, before, oldFor)
	}
	return err
}
