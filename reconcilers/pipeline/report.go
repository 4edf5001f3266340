// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	wanted, differ := r.conditions(s, v)
	if !differ {
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

// conditions returns those of the pipeline, and whether the object has others.
func (r *Reconciler[O]) conditions(s subject[O], v verdict) (wanted []metav1.Condition, differ bool) {
	all := slices.Clone(r.options.Conditions(s.obj))
	for _, kind := range []string{conditionReady, conditionReconciling, conditionStalled} {
		c := metav1.Condition{
			Type: r.options.ConditionPrefix + kind, Status: metav1.ConditionTrue,
			Reason: v.reason, Message: object.Shortened(v.message, maxMessage), ObservedGeneration: s.generation,
		}
		switch kind {
		case conditionReady:
			c.Status = v.ready
		case v.also:
		default:
			differ = meta.RemoveStatusCondition(&all, c.Type) || differ
			continue
		}
		differ = meta.SetStatusCondition(&all, c) || differ
		wanted = append(wanted, *meta.FindStatusCondition(all, c.Type))
	}
	return wanted, differ
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
