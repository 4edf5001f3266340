// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/internal/memory"
)

// Apply brings the copy to desired, which comes from Translate, by server-side apply, if it differs. Fields that only
// an earlier Apply has set are removed; others stay. The status is never part of it.
//
// Errors of a foreign name, a rejected object and a contended field become events: return them like any other.
func (s *Session[T]) Apply(ctx context.Context, desired T) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	r := s.of
	if r.options.CreateOnly && s.facts.down == present {
		return nil
	}
	desired, err := r.mutate(ctx, downstreamSide, verbOf(s.facts.down), desired)
	if err != nil {
		return err
	}
	fields, err := r.fields(s.up, s.name, desired)
	if err != nil {
		return err
	}
	if s.renewing {
		return s.renewWith(ctx, fields)
	}
	if s.facts.down == present {
		path, inStep, err := s.compare(ctx, fields)
		if err != nil || inStep {
			return err
		}
		what := fmt.Sprintf("the field %s of downstream %s %s", path, r.kind.Kind, s.name)
		if err := s.fight(path, what, r.memory.Of(s.key).Wrote.Desired, r.memory.Digest(fields)); err != nil {
			return err
		}
	}
	return s.apply(ctx, fields)
}

func (s *Session[T]) mayWrite() error {
	switch {
	case s.name.Name == "":
		return fmt.Errorf("%s %s has no name that its copy could have", s.of.kind.Kind, s.key)
	case s.facts.imported, s.facts.down != absent && s.facts.ownership != Ours && !s.renewing, s.facts.up != present:
		return fmt.Errorf("write downstream %s %s: %w", s.of.kind.Kind, s.name, ErrForeign)
	}
	return nil
}

func (r *reconciler[T]) fields(up T, name types.NamespacedName, desired T) (map[string]any, error) {
	r.stamp(up, name, desired)
	fields, err := object.Fields(desired)
	if err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = r.kind.ToAPIVersionAndKind()
	fieldset.Prune(fields, r.isTyped)
	if err := fieldset.Without(fields, r.options.Exclude); err != nil {
		return nil, fmt.Errorf("%w: Exclude: %w", ErrInvalidConfig, err)
	}
	// Exclude may name the labels or the annotations; the marks stay.
	u := unstructured.Unstructured{Object: fields}
	u.SetLabels(r.withMarks(u.GetLabels(), desired.GetLabels()))
	notes := r.withMarks(u.GetAnnotations(), desired.GetAnnotations())
	u.SetAnnotations(notes)
	notes[r.keys.Fields] = fieldset.Hash(fields)
	u.SetAnnotations(notes)
	return fields, nil
}

func (r *reconciler[T]) stamp(up T, name types.NamespacedName, obj T) {
	marks := r.translator.Metadata(r.withoutContent(up), name)
	obj.SetName(name.Name)
	obj.SetNamespace(name.Namespace)
	obj.SetAnnotations(r.withMarks(obj.GetAnnotations(), marks.GetAnnotations()))
	obj.SetLabels(r.withMarks(obj.GetLabels(), marks.GetLabels()))
}

// withoutContent keeps the metadata that marks depend on: Metadata of the whole object would copy its content.
func (r *reconciler[T]) withoutContent(up T) T {
	bare := newObject[T](r.kind)
	bare.SetName(up.GetName())
	bare.SetNamespace(up.GetNamespace())
	bare.SetUID(up.GetUID())
	bare.SetGeneration(up.GetGeneration())
	bare.SetLabels(up.GetLabels())
	bare.SetAnnotations(up.GetAnnotations())
	return bare
}

func (r *reconciler[T]) withMarks(all, marks map[string]string) map[string]string {
	marks = maps.Clone(marks)
	maps.DeleteFunc(marks, func(key, _ string) bool { return !r.keys.Has(key) })
	return labels.Merge(all, marks)
}

// compare reports whether the copy is as desired, or what the API server has made of the same fields before.
// Otherwise path is a field that is not.
func (s *Session[T]) compare(ctx context.Context, fields map[string]any) (path string, inStep bool, err error) {
	actual, err := object.Fields(s.down)
	if err != nil {
		return "", false, err
	}
	desired := unstructured.Unstructured{Object: fields}
	if s.down.GetAnnotations()[s.of.keys.Fields] != desired.GetAnnotations()[s.of.keys.Fields] {
		return "metadata.annotations[" + s.of.keys.Fields + "]", false, nil // The set of fields has changed.
	}
	path, inStep = fieldset.Contains(actual, fields)
	if inStep {
		path, inStep = s.isLeft(fieldset.More(actual, fields), s.of.memory.Digest(fields))
		if inStep {
			s.of.pauses.Forget(s.key)
		}
		return path, inStep, nil
	}
	last := s.of.memory.Of(s.key).Wrote
	switch {
	case last.Desired != s.of.memory.Digest(fields):
		return path, false, nil
	case last.Made == s.revision():
		return path, true, s.changedByServer(ctx, path, actual)
	}
	return path, last.Answer != 0 && last.Answer == s.of.memory.Digest(content(actual)), nil
}

// isLeft reports whether what the copy has beyond the fields sent last belongs to others. Otherwise path is one of
// it.
func (s *Session[T]) isLeft(more map[string]any, sent uint64) (path string, left bool) {
	if more == nil || s.of.options.Observe { // Without a write there is no answer.
		return "", true
	}
	digest, last := s.of.memory.Digest(more), s.of.memory.Of(s.key).Wrote
	switch {
	case last.Desired != sent:
	case last.Made == s.revision():
		s.of.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Left = digest })
		return "", true
	case last.Left == digest:
		return "", true
	}
	return slices.Min(slices.Collect(maps.Keys(more))), false
}

func (s *Session[T]) changedByServer(ctx context.Context, path string, actual map[string]any) error {
	r := s.of
	made := r.memory.Digest(content(actual))
	if r.memory.Of(s.key).Wrote.Answer == made {
		return nil
	}
	err := s.Event(ctx, corev1.EventTypeWarning, ReasonContended, fmt.Sprintf(
		"The downstream API server changes the field %s of %s %s while it is written, as an admission webhook does; the change is kept.",
		path, r.kind.Kind, s.name))
	if err == nil {
		r.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Answer = made })
	}
	return err
}

func content(obj map[string]any) map[string]any {
	u := unstructured.Unstructured{Object: maps.Clone(obj)}
	delete(u.Object, "status")
	metadata, _, _ := unstructured.NestedMap(u.Object, "metadata")
	for _, key := range []string{"managedFields", "resourceVersion", "generation"} {
		delete(metadata, key)
	}
	u.Object["metadata"] = metadata
	return u.Object
}

// apply reads only metadata from the answer: the watch delivers the rest.
func (s *Session[T]) apply(ctx context.Context, fields map[string]any) error {
	r := s.of
	sent := r.memory.Digest(fields)
	if r.options.Observe {
		return s.wouldWrite(ctx, verbOf(s.facts.down), "the copy "+s.name.String())
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetResourceVersion(object.OnlyNew)
	if s.facts.down == present {
		u.SetUID(s.down.GetUID())
		u.SetResourceVersion(s.down.GetResourceVersion())
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", r.kind.Kind, s.name, err)
	}
	answer := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name}}
	answer.SetGroupVersionKind(r.kind)
	r.memory.Begin(s.key)
	err = s.downstream.Client.Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, body),
		client.FieldOwner(r.pair.fieldManager(directionDown)), client.ForceOwnership)
	exists := r.memory.End(s.key, s.name, err == nil)
	r.pair.metrics.write(r.kind.Kind, directionDown, verbOf(s.facts.down), err)
	if err != nil {
		return s.refused(ctx, err)
	}
	if !exists {
		return nil
	}
	s.wrote(answer)
	made := memory.Revision(answer.GetResourceVersion())
	r.memory.Change(s.key, func(o *memory.Object) { o.Wrote.Desired, o.Wrote.Made, o.Wrote.Answer, o.Wrote.Left = sent, made, 0, 0 })
	if made != s.revision() {
		return nil // The watch delivers the copy.
	}
	// The API server has kept the copy as it was, so no event follows.
	actual, err := object.Fields(s.down)
	if err != nil {
		return err
	}
	path, contained := fieldset.Contains(actual, fields)
	if contained {
		s.isLeft(fieldset.More(actual, fields), sent)
		return nil
	}
	return s.changedByServer(ctx, path, actual)
}

func (s *Session[T]) refused(ctx context.Context, err error) error {
	s.forbidden = apierrors.IsForbidden(err)
	switch {
	case apierrors.IsConflict(err) && s.facts.down == absent:
		return s.taken(ctx, err)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		isUndeclared(err):
		return s.rejected(ctx, err)
	}
	return &writeError{fmt.Sprintf("write downstream %s %s", s.of.kind.Kind, s.name), err}
}

func (s *Session[T]) taken(ctx context.Context, conflict error) error {
	r := s.of
	found, exists, err := s.liveDown(ctx, s.name)
	switch {
	case err != nil:
		return err
	case exists == absent:
		return conflict
	}
	if _, ours := r.translator.ToUpstream(found); ours {
		return conflict
	}
	s.down, s.facts.down, s.facts.ownership = found, exists, r.translator.Owner(found, s.up.GetUID())
	_, err = s.conflict(ctx)
	return err
}

// rejected retries when the object changes, and from time to time.
func (s *Session[T]) rejected(ctx context.Context, err error) error {
	r, undeclared := s.of, isUndeclared(err)
	err = s.Event(ctx, corev1.EventTypeWarning, ReasonRejected, fmt.Sprintf(
		"The downstream API server does not accept %s %s: %s", r.kind.Kind, s.name, r.pair.explain(err)))
	if err != nil {
		return err
	}
	if undeclared {
		s.problem = ReasonUndeclared
	}
	return &LaterError{After: r.pauses.When(s.key), Why: "the downstream API server rejects the copy"}
}

func verbOf(down presence) verb {
	if down == absent {
		return verbCreate
	}
	return verbUpdate
}
