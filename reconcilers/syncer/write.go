// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

var errStale = errors.New("the copy has appeared or gone since it was read")

func (s *Session[T]) stale() error {
	return apierrors.NewConflict(schema.GroupResource{Group: s.of.kind.Group, Resource: s.of.kind.Kind}, s.name.Name, errStale)
}

// Create creates the copy by POST, for authors who do not apply. obj comes from Translate.
func (s *Session[T]) Create(ctx context.Context, obj T) error {
	return s.write(ctx, verbCreate, obj, func(obj T) error {
		obj.SetResourceVersion("")
		return s.downstream.Client.Create(ctx, obj, client.FieldOwner(s.of.pair.fieldManager(directionDown)))
	})
}

// Update replaces the copy with obj: Both.Downstream with changes, and metadata from TranslateUpdate.
func (s *Session[T]) Update(ctx context.Context, obj T) error {
	return s.write(ctx, verbUpdate, obj, func(obj T) error {
		s.precondition(obj)
		return s.downstream.Client.Update(ctx, obj, client.FieldOwner(s.of.pair.fieldManager(directionDown)))
	})
}

// Patch sends the differences between Both.Downstream and obj, a changed copy of it, as a merge patch.
func (s *Session[T]) Patch(ctx context.Context, obj T) error {
	return s.write(ctx, verbUpdate, obj, func(obj T) error {
		s.precondition(obj)
		from := client.MergeFromWithOptions(s.down, client.MergeFromWithOptimisticLock{})
		return s.downstream.Client.Patch(ctx, obj, from, client.FieldOwner(s.of.pair.fieldManager(directionDown)))
	})
}

func (s *Session[T]) precondition(obj T) {
	obj.SetUID(s.down.GetUID())
	obj.SetResourceVersion(s.down.GetResourceVersion())
}

func (s *Session[T]) write(ctx context.Context, v verb, obj T, send func(T) error) error {
	r := s.of
	if err := s.mayWrite(); err != nil {
		return err
	}
	if s.renewing {
		return s.renewWith(ctx, nil)
	}
	if exists := s.facts.down != absent; exists == (v == verbCreate) {
		return fmt.Errorf("%s downstream %s %s: %w", v, r.kind.Kind, s.name, s.stale())
	}
	obj, err := r.mutate(ctx, downstreamSide, v, obj)
	if err != nil {
		return err
	}
	if r.options.Observe {
		return s.wouldWrite(ctx, v, "the copy "+s.name.String())
	}
	r.stamp(s.up, s.name, obj)
	r.memory.Begin(s.key)
	err = send(obj)
	exists := r.memory.End(s.key, s.name, err == nil)
	r.pair.metrics.write(r.kind.Kind, directionDown, v, err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return s.taken(ctx, s.stale())
	case err != nil:
		return s.refused(ctx, err)
	}
	if exists {
		s.wrote(obj)
	}
	return nil
}

// CreateUpstream creates the upstream object in SyncUp. obj may be a copy of the downstream object: marks go, and its
// name becomes Key.
func (s *Session[T]) CreateUpstream(ctx context.Context, obj T) error {
	r := s.of
	obj, err := r.mutate(ctx, upstreamSide, verbCreate, obj)
	if err != nil {
		return err
	}
	obj = translate.WithoutLocal(obj, r.kind, s.down.GetManagedFields())
	translate.Clean(obj)
	obj.SetLabels(s.withoutMarks(obj.GetLabels()))
	obj.SetAnnotations(s.withoutMarks(obj.GetAnnotations()))
	obj.SetName(s.key.Name)
	obj.SetNamespace(s.key.Namespace)
	s.markImported(obj)
	return s.writeUp(ctx, verbCreate, func() error {
		return s.upstream.Client.Create(ctx, obj, client.FieldOwner(r.pair.fieldManager(directionUp)))
	})
}

// withoutMarks removes marks of copies: those of another pair mean nothing upstream.
func (s *Session[T]) withoutMarks(all map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(key, _ string) bool { return s.of.keys.Has(key) })
	return all
}

// UpdateUpstream replaces the upstream object with obj: Both.Upstream with changes.
func (s *Session[T]) UpdateUpstream(ctx context.Context, obj T) error {
	r := s.of
	obj, err := r.mutate(ctx, upstreamSide, verbUpdate, obj)
	if err != nil {
		return err
	}
	obj.SetUID(s.up.GetUID())
	obj.SetResourceVersion(s.up.GetResourceVersion())
	return s.writeUp(ctx, verbUpdate, func() error {
		return s.upstream.Client.Update(ctx, obj, client.FieldOwner(r.pair.fieldManager(directionUp)))
	})
}

func (s *Session[T]) writeUp(ctx context.Context, v verb, send func() error) error {
	r := s.of
	if r.options.Observe {
		return s.wouldWrite(ctx, v, "the upstream object")
	}
	err := send()
	r.pair.metrics.write(r.kind.Kind, directionUp, v, err)
	if err != nil {
		return &writeError{fmt.Sprintf("%s upstream %s %s", v, r.kind.Kind, s.key), err}
	}
	return nil
}
