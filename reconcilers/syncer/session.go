// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
)

// Session is one reconcile, valid until SyncDown, Sync or SyncUp returns. Its writes check the owner and carry UID
// and resourceVersion: what has changed since it was read is not written. Return a conflict: the object is reconciled
// again soon, without an error in the log.
type Session[T client.Object] struct {
	of                   *reconciler[T]
	key, name            types.NamespacedName
	up, down             T // as read
	upstream, downstream Access
	facts                facts
	awaited              time.Duration
	renewing             bool   // the copy of an earlier object
	renewed              bool   // it was marked again, or deleted
	problem              string // the reason of the last warning
	forbidden            bool   // an API server has forbidden a write
}

// Key returns the name of the upstream object.
func (s *Session[T]) Key() types.NamespacedName { return s.key }

// Target returns the name of the copy, which may not exist.
func (s *Session[T]) Target() types.NamespacedName { return s.name }

// UpstreamAccess is for other objects than the Session's. Its writes check no owner.
func (s *Session[T]) UpstreamAccess() Access { return s.upstream }

// DownstreamAccess is for other objects than the Session's. Its writes check no owner.
func (s *Session[T]) DownstreamAccess() Access { return s.downstream }

// Translate returns a copy of up with the metadata of its downstream copy, for Apply or Create.
func (s *Session[T]) Translate(up T) T { return s.of.translator.Metadata(up, s.name) }

// TranslateUpdate returns annotations and labels for an update; see Translator.MetadataUpdate.
func (s *Session[T]) TranslateUpdate(up, down T) (changed bool, annotations, labels map[string]string) {
	return s.of.translator.MetadataUpdate(up, down)
}

// holdFirst is before the copy, so that no deletion is missed.
func (s *Session[T]) holdFirst(ctx context.Context) error {
	if s.facts.up != present || !s.facts.selected || !s.of.pair.options.OneToOne || s.facts.finalizer || s.facts.imported {
		return nil
	}
	if next := decide(s.facts); next != stepSyncDown && next != stepSync && next != stepRenew {
		return nil
	}
	return s.hold(ctx)
}

func (s *Session[T]) sync(ctx context.Context) (reconcile.Result, error) {
	result, err := s.of.syncer.Sync(ctx, Both[T]{Upstream: copyOf(s.up), Downstream: copyOf(s.down), Imported: s.facts.imported, Session: s})
	if s.of.options.Moves {
		_, gone := s.leave(ctx, true)
		err = BothDirections(err, gone)
	}
	return result, err
}

func (s *Session[T]) act(ctx context.Context) (reconcile.Result, error) {
	r := s.of
	if err := s.holdFirst(ctx); err != nil {
		return reconcile.Result{}, err
	}
	next := decide(s.facts)
	if isSelected := s.facts.up == present && s.facts.selected; r.options.Moves && !isSelected {
		if left, err := s.leave(ctx, isSelected); err != nil || !left {
			return reconcile.Result{RequeueAfter: pauseBase}, err
		}
	}
	if behind := s.behind(); behind > 0 && (next == stepSyncDown || next == stepSync) {
		return reconcile.Result{RequeueAfter: behind}, nil // The event of the write comes sooner.
	}
	if s.awaited > 0 && next == stepSyncDown {
		return reconcile.Result{RequeueAfter: s.awaited}, nil // The event of the deletion comes sooner.
	}
	switch next {
	case stepSyncDown:
		return r.syncer.SyncDown(ctx, Down[T]{Upstream: copyOf(s.up), Session: s})
	case stepSync:
		return s.sync(ctx)
	case stepSyncUp:
		return r.syncer.(UpSyncer[T]).SyncUp(ctx, Up[T]{Downstream: copyOf(s.down), Session: s}) //nolint:forcetypeassert // decide knows it.
	case stepConflict:
		return s.conflict(ctx)
	case stepRenew:
		if r.options.CreateOnly {
			return reconcile.Result{}, nil
		}
		return s.renew(ctx)
	case stepDeleteDown:
		return reconcile.Result{}, s.deleteDown(ctx)
	case stepDeleteUp:
		return reconcile.Result{}, s.deleteUp(ctx)
	case stepRelease:
		return reconcile.Result{}, s.release(ctx)
	case stepNone, stepWait:
	}
	if isOurs := s.facts.ownership == Ours || s.facts.ownership == Stale; s.facts.up == absent && (s.facts.down == absent || !isOurs) {
		r.memory.Forget(s.key)
		r.pauses.Forget(s.key)
		return reconcile.Result{}, s.releaseUnseen(ctx)
	}
	return reconcile.Result{}, nil
}

// renew marks the copy of an earlier object again if it has the present content: the hub was restored, or its objects
// made again. Otherwise it deletes the copy.
func (s *Session[T]) renew(ctx context.Context) (reconcile.Result, error) {
	s.renewing = true
	result, err := s.of.syncer.SyncDown(ctx, Down[T]{Upstream: copyOf(s.up), Session: s})
	if _, cannot := errors.AsType[*LaterError](err); err != nil && !cannot || s.renewed {
		return result, err
	}
	return reconcile.Result{}, s.deleteDown(ctx) // If there may be no copy, the next reconcile says why.
}

func (s *Session[T]) renewWith(ctx context.Context, fields map[string]any) error {
	s.renewed = true
	if fields != nil {
		isRight, err := s.isRight(fields)
		if err != nil {
			return err
		}
		if isRight {
			return s.apply(ctx, fields)
		}
	}
	return s.deleteDown(ctx)
}

func (s *Session[T]) isRight(fields map[string]any) (bool, error) {
	actual, err := object.Fields(s.down)
	if err != nil {
		return false, err
	}
	desired := unstructured.Unstructured{Object: runtime.DeepCopyJSON(fields)}
	notes, have := desired.GetAnnotations(), s.down.GetAnnotations()
	for _, key := range []string{s.of.keys.ObjectUID, s.of.keys.Generation} {
		delete(notes, key)
		if value, exists := have[key]; exists {
			notes[key] = value
		}
	}
	delete(notes, s.of.keys.Fields) // The hash is that of all other fields.
	desired.SetAnnotations(notes)
	_, contained := fieldset.Contains(actual, desired.Object)
	return contained && fieldset.Hash(desired.Object) == have[s.of.keys.Fields], nil
}

func (s *Session[T]) revision() memory.Revision {
	if s.facts.down == absent {
		return memory.NoCopy
	}
	return memory.Revision(s.down.GetResourceVersion())
}

// behind returns for how long the copy may be read as before the last write, or 0.
func (s *Session[T]) behind() time.Duration {
	last := s.of.memory.Of(s.key).Wrote
	if last.Replaced != s.revision() {
		return 0
	}
	return memory.StaleFor - time.Since(last.At)
}

func (s *Session[T]) wrote(made client.Object) {
	if now := s.revision(); now != memory.Revision(made.GetResourceVersion()) {
		s.of.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Replaced, o.Wrote.At = now, time.Now() })
	}
}

func copyOf[T client.Object](obj T) T {
	return obj.DeepCopyObject().(T) //nolint:forcetypeassert // A deep copy has the type of the original.
}

// conflict reports that another client has the name, unless the syncer adopts that object. It is tried again when that
// changes, and from time to time.
func (s *Session[T]) conflict(ctx context.Context) (reconcile.Result, error) {
	r := s.of
	i, ok := r.syncer.(Importer[T])
	if !ok || s.facts.up != present || s.facts.down != present || s.isCopyOfAnother(s.down) || !i.Import(ctx, copyOf(s.up), copyOf(s.down)) {
		return reconcile.Result{}, s.nameConflict()
	}
	// From here on it is the copy, which Sync marks.
	s.facts.ownership = Ours
	return r.syncer.Sync(ctx, Both[T]{Upstream: copyOf(s.up), Downstream: copyOf(s.down), Session: s})
}

func (s *Session[T]) nameConflict() error {
	r := s.of
	r.memory.Block(s.name, s.key)
	r.pair.metrics.conflict(r.kind.Kind)
	why := "is not a copy of this object"
	if s.facts.ownership == Copied {
		why = "has the marks of another object"
	}
	return &LaterError{After: r.pauses.When(s.key), Reason: ReasonNameConflict, Why: fmt.Sprintf(
		"%s %s exists in the downstream cluster and %s; it is not changed. Rename or delete one of them.", r.kind.Kind, s.name, why)}
}

// importedFrom returns for which downstream object the upstream object was made. One with a copied annotation was
// not.
func (s *Session[T]) importedFrom() (types.NamespacedName, bool) {
	parts := strings.Split(s.up.GetAnnotations()[s.of.keys.Imported], "/")
	if !s.facts.upSyncer || len(parts) != 5 || parts[0] != s.of.pair.options.Identity.Tenant ||
		parts[3] != s.key.Namespace || parts[4] != s.key.Name {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parts[1], Name: parts[2]}, true
}

func (s *Session[T]) markImported(obj T) {
	from := strings.Join([]string{ // No name has a slash.
		s.of.pair.options.Identity.Tenant, s.down.GetNamespace(), s.down.GetName(), s.key.Namespace, s.key.Name,
	}, "/")
	obj.SetAnnotations(labels.Merge(obj.GetAnnotations(), map[string]string{s.of.keys.Imported: from}))
}
