// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

const (
	// sweepEvery is the time between two sweeps, plus up to a tenth.
	sweepEvery = 30 * time.Minute
	// sweepTimeout bounds one sweep.
	sweepTimeout = 5 * time.Minute
	// sweepPage is how many Leases are listed at once.
	sweepPage = 500
)

// Sweep deletes the Leases of objects that have gone, unless they are held. A Lease is left when a process ends between
// the removal of the last finalizer and the deletion of the Lease, or when an object had no finalizer. AddTo and Module
// sweep when the controller starts, and every half an hour; a reconciler of another make does so itself. Without Leases
// there is nothing to do.
func (h *Host[O]) Sweep(ctx context.Context) error {
	return h.sweep(ctx, func(O) bool { return false })
}

// sweep deletes the Leases of objects that have gone, and of those that are done with although they are still there.
func (h *Host[O]) sweep(ctx context.Context, isDone func(obj O) bool) error {
	if h.options.Locks != nil {
		return nil
	}
	var errs []error
	for token, more := "", true; more && ctx.Err() == nil; {
		var page coordinationv1.LeaseList
		err := h.live.List(ctx, &page, client.InNamespace(h.options.LeaseNamespace),
			client.MatchingLabels{hostLabel: h.options.Name}, client.Limit(sweepPage), client.Continue(token))
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("list the Leases in namespace %s: %w", h.options.LeaseNamespace, err))...)
		}
		for i := range page.Items {
			errs = append(errs, h.sweepOne(ctx, &page.Items[i], isDone))
		}
		token, more = page.Continue, page.Continue != ""
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// sweepOne deletes a Lease if nobody needs it.
func (h *Host[O]) sweepOne(ctx context.Context, l *coordinationv1.Lease, isDone func(obj O) bool) error {
	key, uid, ok := h.subjectOf(l)
	if !ok {
		return nil
	}
	var e entry
	if err := decode(l, &e); err != nil {
		return err
	}
	if e.lock.Holder != "" && h.others.remaining(lockKey{uid: uid, kind: e.lock.Type}, e.lock, h.clock.now()) > 0 {
		return nil
	}
	needed, err := h.isNeeded(ctx, key, uid, isDone)
	if err != nil || needed {
		return err
	}
	if err := h.deleteLease(ctx, l); err != nil && !apierrors.IsConflict(err) { // Somebody has written it since.
		return fmt.Errorf("delete Lease %s of %s, which has gone: %w", l.Name, key, err)
	}
	return nil
}

// subjectOf returns the object that a Lease belongs to, if it is one of the host's.
func (h *Host[O]) subjectOf(l *coordinationv1.Lease) (key client.ObjectKey, uid types.UID, ok bool) {
	kind, name, ok := strings.Cut(l.Annotations[annotationObject], " ")
	if !ok || kind != h.gvk.GroupKind().String() {
		return key, "", false
	}
	key.Namespace, key.Name, ok = strings.Cut(name, "/")
	rest, ours := strings.CutPrefix(l.Name, h.leasePrefix())
	end := strings.LastIndex(rest, "-")
	if !ok || !ours || end <= 0 {
		return key, "", false
	}
	return key, types.UID(rest[:end]), true
}

// isNeeded reports whether there may be another Guard for the object. The client, which may be a cache, is asked first:
// of most Leases the objects are there. That an object has gone is decided on a live read.
func (h *Host[O]) isNeeded(ctx context.Context, key client.ObjectKey, uid types.UID, isDone func(obj O) bool) (bool, error) {
	obj := object.New[O]()
	if err := h.client.Get(ctx, key, obj); err == nil && obj.GetUID() == uid {
		return !isDone(obj), nil
	}
	live, err := h.finalizers.Read(ctx, h.live, &metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name})
	if client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("read %s %s, which a Lease is of: %w", h.gvk.Kind, key, err)
	}
	return err == nil && live.GetUID() == uid, nil
}

// sweeper sweeps as long as the reconciler works.
type sweeper[O client.Object] struct {
	*Host[O]
	log logr.Logger
}

// Start sweeps until ctx ends.
func (s sweeper[O]) Start(ctx context.Context) error {
	for {
		if err := s.once(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "Failed to delete the Leases of objects that have gone", "guard", s.options.Name)
		}
		if !sleep(ctx, s.clock, wait.Jitter(sweepEvery, 0.1)) {
			return nil
		}
	}
}

// once sweeps. The reconciler of the host does nothing more for an object that is being deleted and has no finalizer of
// its own.
func (s sweeper[O]) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return s.sweep(ctx, func(obj O) bool {
		return !obj.GetDeletionTimestamp().IsZero() && !slices.Contains(obj.GetFinalizers(), s.options.identity())
	})
}
