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
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

const (
	// sweepEvery is the time between two sweeps; up to a tenth is added.
	sweepEvery   = 30 * time.Minute
	sweepTimeout = 5 * time.Minute
	sweepPage    = 500
	// maxSweepPages bounds a sweep: an API server that lies has no last page.
	maxSweepPages = 200
	// maxSweepHeld bounds the held locks that one sweep checks: an observation of each is kept in memory.
	maxSweepHeld = 1000
)

var errEndless = errors.New("the list of Leases does not end; look for the client that creates Leases with the label " + hostLabel)

// Sweep deletes the Leases of deleted objects that a crash, or an object without a finalizer, has left, unless they
// are held. AddTo and Module sweep; for other reconcilers Sweeper does. Only a 404 that names the object proves its
// deletion. One sweep reads 100000 Leases at most. The error is that of the first Lease, with the number of failures.
func (h *Host[O]) Sweep(ctx context.Context) error {
	return h.sweep(ctx, func(O) bool { return false })
}

// sweep also deletes the Leases of objects for which isDone returns true.
func (h *Host[O]) sweep(ctx context.Context, isDone func(obj O) bool) error {
	if h.options.Locks != nil {
		return nil
	}
	s := sweepState{Failed: object.Failed{What: "Leases could not be checked"}}
	for token := ""; ctx.Err() == nil; s.pages++ {
		if s.pages == maxSweepPages {
			return errors.Join(s.Err(), fmt.Errorf("after %d pages: %w", s.pages, errEndless))
		}
		var page coordinationv1.LeaseList
		err := h.live.List(ctx, &page, client.InNamespace(h.options.LeaseNamespace),
			client.MatchingLabels{hostLabel: h.options.Name}, client.Limit(sweepPage), client.Continue(token))
		if err != nil {
			return errors.Join(s.Err(), fmt.Errorf("list the Leases in namespace %s: %w", h.options.LeaseNamespace, err))
		}
		for i := range page.Items {
			s.Note(h.sweepOne(ctx, &page.Items[i], isDone, &s))
		}
		switch page.Continue {
		case "":
			return errors.Join(s.Err(), ctx.Err())
		case token:
			return errors.Join(s.Err(), fmt.Errorf("a page is followed by itself: %w", errEndless))
		}
		token = page.Continue
	}
	return errors.Join(s.Err(), ctx.Err())
}

// sweepState does not grow with the number of Leases.
type sweepState struct {
	object.Failed
	pages, held int
}

func (h *Host[O]) sweepOne(ctx context.Context, l *coordinationv1.Lease, isDone func(obj O) bool, s *sweepState) error {
	key, uid, ok := h.subjectOf(l)
	if !ok {
		return nil
	}
	var e entry
	if err := decode(l, &e); err != nil {
		return err
	}
	if e.lock.Holder != "" {
		if s.held++; s.held > maxSweepHeld {
			return nil
		}
		if !isPlausible(e.lock) {
			return fmt.Errorf("the lock in Lease %s was not written by a guard; delete the Lease to forget the attempts of this condition", l.Name)
		}
		if h.remaining(lockKey{uid: uid, kind: e.lock.Type}, e.lock) > 0 {
			return nil
		}
	}
	needed, err := h.isNeeded(ctx, key, uid, isDone)
	if err != nil || needed {
		return err
	}
	if err := h.deleteLease(ctx, l); err != nil && !apierrors.IsConflict(err) { // After a conflict the next sweep decides again.
		return fmt.Errorf("delete Lease %s of %s, which has been deleted: %w", l.Name, key, err)
	}
	return nil
}

// isPlausible reports whether a guard may have written the lock: it is small and expires.
func isPlausible(l lock.State) bool {
	return checkType(l.Type) == nil && len(l.Holder) <= 2*maxHolder &&
		l.TTLSeconds > 0 && l.TTLSeconds <= int32(maxTTL/time.Second)
}

func (h *Host[O]) subjectOf(l *coordinationv1.Lease) (key client.ObjectKey, uid types.UID, ok bool) {
	kind, name, ok := strings.Cut(l.Annotations[annotationObject], " ")
	if !ok || kind != h.gvk.GroupKind().String() {
		return key, "", false
	}
	key.Namespace, key.Name, ok = strings.Cut(name, "/")
	rest, ours := strings.CutPrefix(l.Name, h.leasePrefix())
	end := strings.LastIndex(rest, "-")
	if !ok || !ours || end <= 0 || l.Namespace != h.options.LeaseNamespace || !isNamed(l.Name, key) {
		return key, "", false
	}
	return key, types.UID(rest[:end]), true
}

func isNamed(lease string, of client.ObjectKey) bool {
	return len(validation.IsDNS1123Subdomain(lease)) == 0 &&
		(of.Namespace == "" || len(validation.IsDNS1123Label(of.Namespace)) == 0) &&
		of.Name != "" && len(of.Name) <= validation.DNS1123SubdomainMaxLength && len(content.IsPathSegmentName(of.Name)) == 0
}

// isNeeded reports whether the object may get another Guard. The cache is asked first, since most objects exist. Only
// a live read proves a deletion.
func (h *Host[O]) isNeeded(ctx context.Context, key client.ObjectKey, uid types.UID, isDone func(obj O) bool) (bool, error) {
	obj := object.New[O]()
	if err := h.client.Get(ctx, key, obj); err == nil && obj.GetUID() == uid {
		return !isDone(obj), nil
	}
	live, err := h.finalizers.Read(ctx, h.live, &metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name})
	switch {
	case err == nil:
		return live.GetUID() == uid, nil
	case h.isGone(err, key):
		return false, nil
	}
	return true, fmt.Errorf("read %s %s, the object of a Lease: %w", h.gvk.Kind, key, err)
}

// isGone reports whether the kind is served and has no such object. A removed version, kind or aggregated API server
// is NotFound, too; then the objects may reappear.
func (h *Host[O]) isGone(err error, key client.ObjectKey) bool {
	var said apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &said) || said.Status().Details == nil {
		return false
	}
	details := said.Status().Details
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false // client-go fills in the details of a response that is no Status.
	}
	if details.Name != key.Name || details.Group != h.gvk.Group {
		return false
	}
	mapping, err := h.client.RESTMapper().RESTMapping(h.gvk.GroupKind(), h.gvk.Version)
	return err == nil && (details.Kind == mapping.Resource.Resource || details.Kind == h.gvk.Kind)
}

// Sweeper returns a runnable that sweeps at the start of the manager and every half an hour. It logs errors, and
// never ends its manager. AddTo and Module add one.
func (h *Host[O]) Sweeper(log logr.Logger) manager.Runnable {
	return sweeper[O]{Host: h, log: log, isDone: func(O) bool { return false }}
}

type sweeper[O client.Object] struct {
	*Host[O]

	log    logr.Logger
	isDone func(obj O) bool
}

// isLeft reports whether the object is being deleted, and the host's finalizer is gone.
func (h *Host[O]) isLeft(obj O) bool {
	return !obj.GetDeletionTimestamp().IsZero() && !slices.Contains(obj.GetFinalizers(), h.options.identity())
}

func (s sweeper[O]) Start(ctx context.Context) error {
	for {
		if err := s.once(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "Failed to delete the Leases of deleted objects", "guard", s.options.Name)
		}
		if !sleep(ctx, s.clock, wait.Jitter(sweepEvery, 0.1)) {
			return nil
		}
	}
}

func (s sweeper[O]) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return s.sweep(ctx, s.isDone)
}
