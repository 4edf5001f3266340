// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/side"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

type reconciler[T client.Object] struct {
	pair       *Pair
	syncer     Syncer[T]
	options    Options[T]
	translator Translator[T]
	keys       translate.Keys
	kind       schema.GroupVersionKind
	isTyped    bool // the scheme has the kind
	finalizer  string
	up, down   side.View
	memory     *memory.Memory
	copies     prometheus.Gauge
	pauses     workqueue.TypedRateLimiter[types.NamespacedName] // of objects that waits for another client
	noStatus   atomic.Bool                                      // the kind has no status subresource upstream
	log        logr.Logger
}

func itself(_ context.Context, obj client.Object, _ bool) []types.NamespacedName {
	return []types.NamespacedName{client.ObjectKeyFromObject(obj)}
}

func (r *reconciler[T]) observeDown(_ context.Context, obj client.Object, deleted bool) []types.NamespacedName {
	down, ok := obj.(T)
	if !ok {
		return nil
	}
	name := client.ObjectKeyFromObject(obj)
	all := r.memory.Unblock(name)
	if former, is := translate.FormerOf(r.translator, down); r.options.Moves && is {
		if deleted {
			r.memory.Left(former, name)
		} else {
			r.memory.Former(former, name)
		}
		return append(all, former)
	}
	up, ours := r.translator.ToUpstream(down)
	switch {
	case ours && deleted:
		original := types.UID(down.GetAnnotations()[r.keys.ObjectUID])
		if known := r.memory.Of(up); known.Deletes == down.GetUID() || known.Lives != down.GetUID() {
			original = ""
		}
		r.memory.Gone(up, original)
	case ours:
		var alive types.UID
		if r.options.OnDownstreamDeletion == Propagate && down.GetDeletionTimestamp() == nil {
			alive = down.GetUID()
		}
		r.memory.Exists(up, name, alive)
	default:
		s, isUp := r.syncer.(UpSyncer[T])
		if !isUp {
			return all
		}
		if up, ours = s.UpstreamName(down); !ours {
			return all
		}
		r.memory.Change(up, func(o *memory.Object) { o.Source = name })
	}
	return append(all, up)
}

func (r *reconciler[T]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx = deletes.CausedBy(ctx, r.pair.options.Cause)
	return around(ctx, r.syncer, req, func(ctx context.Context) (reconcile.Result, error) {
		o := &r.pair.options
		s := &Session[T]{of: r, key: req.NamespacedName, upstream: o.Upstream.Access(), downstream: o.Downstream.Access()}
		if err := s.observe(ctx); err != nil {
			return reconcile.Result{}, err
		}
		result, err := s.act(ctx)
		s.noteFailure(ctx, err)
		r.copies.Set(float64(r.memory.Count()))
		s.report(err)
		return result, err
	})
}

func (s *Session[T]) report(err error) {
	if f := s.of.pair.options.Report; f != nil {
		f(Outcome{
			Key: s.key, Target: s.name, Selected: s.facts.up == present && s.facts.selected, Reason: s.problem,
			Refused: s.forbidden || apierrors.IsForbidden(err), Err: err,
		})
	}
}

// settle: a conflict is no error, since the cache gets the change and the object is reconciled again.
func settle(result reconcile.Result, err error) (reconcile.Result, error) {
	var later *LaterError
	var both *bothError
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &both):
		up, failedUp := settle(result, both.up)
		down, failedDown := settle(result, both.down)
		if failedUp != nil && failedDown != nil {
			return reconcile.Result{}, errors.Join(failedUp, failedDown)
		}
		// A direction that waits does not wait for the backoff of one that fails, whose RequeueAfter is 0.
		return reconcile.Result{RequeueAfter: max(min(up.RequeueAfter, down.RequeueAfter), pauseBase)}, nil
	case errors.As(err, &later):
		return reconcile.Result{RequeueAfter: wait.Jitter(later.After, 0.1)}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflicted}, nil
	}
	return reconcile.Result{}, err
}

// BothDirections joins the errors of a Sync, which may be nil: each has the effect that it would have alone.
func BothDirections(up, down error) error {
	if up != nil && down != nil {
		return &bothError{up: up, down: down}
	}
	return cmp.Or(up, down)
}

type bothError struct{ up, down error }

func (e *bothError) Error() string { return errors.Join(e.up, e.down).Error() }

func (e *bothError) Unwrap() []error { return []error{e.up, e.down} }

func (s *Session[T]) observe(ctx context.Context) (err error) {
	r := s.of
	if s.up, s.facts.up, err = (reader[T]{r.up.Reader(), r.kind, upstreamSide}).read(ctx, s.key); err != nil {
		return err
	}
	if s.facts.up != absent {
		if s.up, err = r.mutate(ctx, upstreamSide, verbGet, s.up); err != nil {
			return err
		}
		s.facts.selected = s.isSelected(s.up)
		s.facts.finalizer = slices.Contains(s.up.GetFinalizers(), r.finalizer)
	}
	_, s.facts.upSyncer = r.syncer.(UpSyncer[T])
	if s.name, s.facts.imported = s.importedFrom(); s.facts.imported {
		if err = s.readDown(ctx, s.name); s.facts.down != absent && !s.claims(s.down) {
			s.facts.down = absent // It is for another upstream object now.
		}
	} else {
		err = s.find(ctx)
	}
	if err != nil {
		return err
	}
	s.facts.upSyncer = s.facts.upSyncer && s.facts.down != absent && s.claims(s.down)
	s.facts.propagates = r.options.OnDownstreamDeletion == Propagate
	if s.facts.down == absent {
		s.awaited = r.memory.Awaited(s.key, time.Now()) // First: a report that comes now is either awaited or known.
		s.facts.lost = r.memory.Of(s.key).Lost == s.up.GetUID()
		return nil
	}
	known := r.memory.Of(s.key)
	s.facts.byOthers = known.Lives == s.down.GetUID() && known.Deletes != s.down.GetUID()
	s.down, err = r.mutate(ctx, downstreamSide, verbGet, s.down)
	return err
}

func (s *Session[T]) claims(down T) bool {
	u, ok := s.of.syncer.(UpSyncer[T])
	if !ok {
		return false
	}
	up, wanted := u.UpstreamName(down)
	return wanted && up == s.key
}

// isSelected is false for an object that another controller manages.
func (s *Session[T]) isSelected(up T) bool {
	r := s.of
	return up.GetLabels()[r.keys.ControlledBy] == "" && !translate.IsCopy(up) && r.pair.options.Upstream.Selects(up) && (r.options.Select == nil || r.options.Select(up))
}

// reader reads objects of one kind on one side.
type reader[T client.Object] struct {
	from client.Reader
	kind schema.GroupVersionKind
	side sideOfHook
}

func (r reader[T]) read(ctx context.Context, name types.NamespacedName) (found T, exists presence, err error) {
	found = newObject[T](r.kind)
	if exists, err = presenceOf(found, r.from.Get(ctx, name, found)); err != nil {
		err = fmt.Errorf("read %s %s %s: %w", r.side, r.kind.Kind, name, err)
	}
	return found, exists, err
}

// liveUp reads the upstream object from the API server.
func (s *Session[T]) liveUp(ctx context.Context) (T, presence, error) {
	return reader[T]{s.upstream.Live, s.of.kind, upstreamSide}.read(ctx, s.key)
}

func (s *Session[T]) liveDown(ctx context.Context, name types.NamespacedName) (T, presence, error) {
	return reader[T]{s.downstream.Live, s.of.kind, downstreamSide}.read(ctx, name)
}

func presenceOf(obj client.Object, err error) (presence, error) {
	switch {
	case apierrors.IsNotFound(err):
		return absent, nil
	case err != nil:
		return absent, err
	case !obj.GetDeletionTimestamp().IsZero():
		return terminating, nil
	}
	return present, nil
}

// find finds the copy under any name that it may have. Without a copy, s.name is that of an object of another owner (a conflict), or the
// first free name. If copies of other objects have all names, they are in conflict.
func (s *Session[T]) find(ctx context.Context) error {
	r := s.of
	known := r.memory.Of(s.key)
	all := r.translator.ToDownstream(s.key)
	if known.Source.Name != "" && s.facts.up == absent {
		all = append([]types.NamespacedName{known.Source}, all...)
	}
	if known.Copy.Name != "" {
		all = append([]types.NamespacedName{known.Copy}, all...)
	}
	free, blocked, used := types.NamespacedName{}, types.NamespacedName{}, types.NamespacedName{}
	for _, name := range all {
		if found, err := s.isCopy(ctx, name); err != nil || found {
			return err
		}
		_, ours := r.translator.ToUpstream(s.down)
		switch {
		case s.facts.down == absent && free.Name == "":
			free = name
		case s.facts.down == absent:
		case !ours && blocked.Name == "":
			blocked = name
		case ours:
			used = name
		}
	}
	if free.Name == "" && blocked.Name == "" && s.facts.up == present {
		blocked = used
	}
	if blocked.Name == "" {
		s.name, s.facts.down = free, absent
		return nil
	}
	s.name = blocked
	if err := s.readDown(ctx, blocked); err != nil {
		return err
	}
	s.facts.ownership = r.translator.Owner(s.down, s.up.GetUID())
	if s.isCopyOfAnother(s.down) {
		s.facts.ownership = Foreign
	}
	return nil
}

func (s *Session[T]) isCopy(ctx context.Context, name types.NamespacedName) (bool, error) {
	if err := s.readDown(ctx, name); err != nil || s.facts.down == absent {
		return false, err
	}
	if up, ours := s.of.translator.ToUpstream(s.down); !ours || up != s.key {
		return false, nil
	}
	s.name, s.facts.ownership = name, s.of.translator.Owner(s.down, s.up.GetUID())
	return true, nil
}

func (s *Session[T]) isCopyOfAnother(down T) bool {
	up, ours := s.of.translator.ToUpstream(down)
	return ours && up != s.key
}

func (s *Session[T]) readDown(ctx context.Context, name types.NamespacedName) (err error) {
	if name.Name == "" {
		s.down = newObject[T](s.of.kind)
		return nil
	}
	s.down, s.facts.down, err = reader[T]{s.of.down.Reader(), s.of.kind, downstreamSide}.read(ctx, name)
	return err
}
