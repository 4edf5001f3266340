// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// Delete deletes the copy. The pair does so itself when the upstream object has gone.
func (s *Session[T]) Delete(ctx context.Context) error {
	if s.facts.down == absent {
		return nil
	}
	if s.facts.imported || s.facts.ownership == Foreign || s.facts.ownership == Copied {
		return fmt.Errorf("delete downstream %s %s: %w", s.of.kind.Kind, s.name, ErrForeign)
	}
	return s.remove(ctx)
}

// DeleteHost deletes a downstream object with its UID and resourceVersion, if it has one, as preconditions. One that
// has gone is no error. It checks no owner; Session.Delete does.
func DeleteHost(ctx context.Context, p *Pair, obj client.Object, opts ...client.DeleteOption) error {
	return object.DeleteExactly(ctx, p.options.Downstream.Access().Client, obj, opts...)
}

// deleteDown decides from live reads whether the original has gone, is being deleted, or is another object.
func (s *Session[T]) deleteDown(ctx context.Context) error {
	ctx, err := s.evidence(ctx)
	if err != nil {
		return err
	}
	return s.remove(ctx)
}

func (s *Session[T]) evidence(ctx context.Context) (context.Context, error) {
	r := s.of
	if s.facts.up == terminating {
		return deletes.OnPurpose(ctx, deletes.Terminating(s.up)), nil
	}
	found, state, err := s.liveUp(ctx)
	switch {
	case err != nil:
		return ctx, err
	case state == absent && s.facts.up == absent:
		return r.up.Declare(ctx, s.key)
	case state == absent, s.facts.ownership == Stale && string(found.GetUID()) == s.down.GetAnnotations()[r.keys.ObjectUID]:
		return ctx, errBehind
	case s.facts.ownership == Stale:
		return ctx, nil
	}
	// Hooks may add what Select needs.
	if found, err = r.mutate(ctx, upstreamSide, verbGet, found); err != nil {
		return ctx, err
	}
	if s.isSelected(found) {
		return ctx, errBehind
	}
	return r.pair.giveUp(ctx)
}

func (s *Session[T]) remove(ctx context.Context) error {
	r := s.of
	found, state, err := s.liveDown(ctx, s.name)
	if err != nil {
		return err
	}
	if state == absent {
		r.memory.Gone(s.key, "")
		return errBehind
	}
	if up, ours := r.translator.ToUpstream(found); !ours || up != s.key || state == terminating {
		return nil
	}
	if r.options.Observe {
		return s.wouldWrite(ctx, verbDelete, "the copy "+s.name.String())
	}
	if found, err = r.mutate(ctx, downstreamSide, verbDelete, found); err != nil {
		return err
	}
	if found.GetUID() != s.down.GetUID() {
		return errBehind // Another process has replaced the copy.
	}
	r.memory.Change(s.key, func(o *memory.Object) { o.Deletes = found.GetUID() })
	if err = s.deleteCopy(ctx, found); err == nil {
		r.memory.Gone(s.key, "")
	} else if isRefusal(err) {
		r.memory.Change(s.key, func(o *memory.Object) { o.Deletes = "" })
	}
	return err
}

func (s *Session[T]) deleteCopy(ctx context.Context, found T) error {
	r := s.of
	err := object.DeleteExactly(deletes.Owning(ctx, max(1, r.memory.Count())), s.downstream.Client, found)
	r.pair.metrics.write(r.kind.Kind, directionDown, verbDelete, err)
	if err != nil {
		return &writeError{fmt.Sprintf("delete downstream %s %s", r.kind.Kind, client.ObjectKeyFromObject(found)), err}
	}
	return nil
}

func isRefusal(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || deletes.IsHeld(err)
}

// deleteUp follows the deletion of a copy, or of a downstream object of SyncUp. It decides from a live read.
func (s *Session[T]) deleteUp(ctx context.Context) error {
	r := s.of
	found, state, err := s.liveDown(ctx, s.name)
	switch {
	case err != nil:
		return err
	case state == present && s.facts.imported && !s.claims(found): // Now it is for another upstream object.
	case state == present:
		r.memory.Exists(s.key, s.name, "")
		return errBehind
	case !s.facts.imported:
		// Not declared: a deleted namespace or definition takes every copy, and the limits must apply.
	case state == terminating:
		ctx = deletes.OnPurpose(ctx, deletes.Terminating(found))
	default:
		if ctx, err = r.down.Declare(ctx, s.name); err != nil {
			return err
		}
	}
	up, err := r.mutate(ctx, upstreamSide, verbDelete, s.up)
	if err != nil {
		return err
	}
	return s.writeUp(ctx, verbDelete, func() error { return object.DeleteExactly(ctx, s.upstream.Client, up) })
}

// confirmGone fails if the API server has a copy.
func (s *Session[T]) confirmGone(ctx context.Context) error {
	r := s.of
	names := r.translator.ToDownstream(s.key)
	if known := r.memory.Of(s.key).Copy; known.Name != "" {
		names = append(names, known)
	}
	if len(r.memory.FormersOf(s.key)) > 0 {
		return errBehind
	}
	for _, name := range names {
		found, state, err := s.liveDown(ctx, name)
		if err != nil {
			return err
		}
		if up, ours := r.translator.ToUpstream(found); state != absent && ours && up == s.key {
			return errBehind
		}
	}
	return nil
}
