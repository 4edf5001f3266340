// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// Reasons and messages of events, as Kumori's runtime has them.
const (
	// ReasonSynced: a secondary was created, updated or deleted.
	ReasonSynced = "Synced"
	// ReasonResourceExists: an object of another owner has the name of a secondary; also in the status.
	ReasonResourceExists = "ErrResourceExists"

	// They differ, since events of one object with the same action and reason count as one.
	actionCreate = "Create"
	actionUpdate = "Update"
	actionDelete = "Delete"

	messageExists  = "Resource %q already exists and is not managed by this controller"
	messageCreated = "%q synced successfully (created)"
	messageUpdated = "%q synced successfully (updated)"
	messageDeleted = "%q synced successfully (deleted)"
)

// ErrResourceExists is the error of Secondaries.Apply if an object of another owner has the name.
var ErrResourceExists = errors.New("the object exists, and another owner has it")

type existsError struct{ name string }

func (e *existsError) Error() string { return fmt.Sprintf(messageExists, e.name) }

func (e *existsError) Is(target error) bool { return target == ErrResourceExists }

// Secondaries are the objects of one primary in one cluster, and its entities in other buckets, for one reconcile.
type Secondaries struct {
	owner   Owner
	marks   Marks
	manager string // of fields
	client  client.Client
	live    client.Reader
	objects []*objects

	entities []*entities
	hub      *Secondaries // nil without Options.Hub
	event    func(obj client.Object, action string, e Event)
	isBefore func(bucket.Birth) bool // bucket.Bucket.IsOfBefore
}

// Hub returns what this cluster has made in the hub for the primary, or nil without Options.Hub.
func (s *Secondaries) Hub() *Secondaries { return s.hub }

// Apply creates or updates a secondary by server-side apply, if it differs. Fields that only an earlier Apply has set
// are removed; others stay. obj is new, of a kind of Options.Owns (else the error wraps ErrInvalidOptions) or
// unstructured, and is changed. An object of another owner stays: the error wraps ErrResourceExists, and an event
// says so.
func (s *Secondaries) Apply(ctx context.Context, obj client.Object) error {
	kind, err := apiutil.GVKForObject(obj, s.client.Scheme())
	if err != nil {
		return fmt.Errorf("apply a secondary of %s: %w", s.owner.Key, err)
	}
	found, exists, err := s.find(ctx, obj, kind)
	if err != nil {
		return err
	}
	owner := s.owner
	if exists {
		known, ours := s.marks.OwnerOf(found)
		if !ours || known.Key != owner.Key {
			return s.foreign(obj)
		}
		if !s.isBefore(known.Life) {
			owner = known // The controller has checked its life. A process that knows less of the history has a later one.
		}
	}
	s.marks.SetOwner(obj, owner)
	u, err := s.desired(obj, kind)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind.Kind, obj.GetName(), err)
	}
	action, message := actionCreate, messageCreated
	if !exists {
		u.SetResourceVersion(object.OnlyNew)
	} else {
		same, err := s.isAsDesired(found, u)
		if err != nil || same {
			return err
		}
		action, message = actionUpdate, messageUpdated
		u.SetUID(found.GetUID())
		u.SetResourceVersion(found.GetResourceVersion())
	}
	answer := u.DeepCopy()
	err = s.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(s.manager), client.ForceOwnership)
	if err != nil {
		return s.refused(ctx, obj, exists, err)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "uid")
	unstructured.RemoveNestedField(u.Object, "metadata", "resourceVersion")
	s.ofKind(kind).left.sent(client.ObjectKeyFromObject(obj), u.Object, answer.GetResourceVersion())
	if exists && answer.GetResourceVersion() == found.GetResourceVersion() {
		return nil
	}
	s.synced(answer, action, message)
	return nil
}

func (s *Secondaries) synced(obj client.Object, action, message string) {
	s.event(obj, action, Event{Key: s.owner.Key, Reason: ReasonSynced, Message: fmt.Sprintf(message, obj.GetName())})
}

func (s *Secondaries) desired(obj client.Object, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	fields, err := object.Fields(obj)
	if err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = kind.ToAPIVersionAndKind()
	fieldset.Prune(fields, s.client.Scheme().Recognizes(kind))
	u := &unstructured.Unstructured{Object: fields}
	notes := u.GetAnnotations()
	notes[s.marks.Prefix+"/fields"] = fieldset.Hash(fields) // A field that is no longer applied changes it.
	u.SetAnnotations(notes)
	return u, nil
}

// isAsDesired reports whether an object, perhaps the cache's, has all desired fields and none that apply would
// remove.
func (s *Secondaries) isAsDesired(found client.Object, desired *unstructured.Unstructured) (bool, error) {
	var actual map[string]any
	if u, ok := found.(*unstructured.Unstructured); ok {
		actual = u.Object
	} else {
		found.GetObjectKind().SetGroupVersionKind(desired.GroupVersionKind()) // The cache may have none.
		found.SetManagedFields(nil)                                           // To convert them takes longer than all other fields. The cache keeps its own.
		var err error
		if actual, err = object.Fields(found); err != nil {
			return false, err
		}
	}
	if _, ok := fieldset.Contains(actual, desired.Object); !ok {
		return false, nil
	}
	more := fieldset.More(actual, desired.Object)
	left := s.ofKind(desired.GroupVersionKind()).left
	return left.has(client.ObjectKeyFromObject(found), desired.Object, more, found.GetResourceVersion()), nil
}

// refused: a conflict of a new object is another owner that the cache lacks, or the cache being behind.
func (s *Secondaries) refused(ctx context.Context, obj client.Object, existed bool, err error) error {
	if apierrors.IsConflict(err) && !existed {
		found := obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // A deep copy has the type of the original.
		if s.live.Get(ctx, client.ObjectKeyFromObject(obj), found) == nil && !s.owns(found) {
			return s.foreign(obj)
		}
	}
	return fmt.Errorf("apply %s of %s: %w", client.ObjectKeyFromObject(obj), s.owner.Key, err)
}

// find returns maps and lists of the cache, which must not be changed.
func (s *Secondaries) find(ctx context.Context, obj client.Object, kind schema.GroupVersionKind) (client.Object, bool, error) {
	o := s.ofKind(kind)
	if o == nil {
		return nil, false, fmt.Errorf("%w: %s is not in Owns, so nothing would collect %s", ErrInvalidOptions, kind.Kind, client.ObjectKeyFromObject(obj))
	}
	found := o.empty.DeepCopyObject().(client.Object) //nolint:forcetypeassert // A deep copy has the type of the original.
	err := o.reader.Get(ctx, client.ObjectKeyFromObject(obj), found, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s of %s: %w", client.ObjectKeyFromObject(obj), s.owner.Key, err)
	}
	return found, true, nil
}

func (s *Secondaries) ofKind(kind schema.GroupVersionKind) *objects {
	for _, o := range s.objects {
		if o.kind == kind {
			return o
		}
	}
	return nil
}

func (s *Secondaries) lives() map[bucket.Birth]bool {
	all := map[bucket.Birth]bool{}
	for _, o := range s.objects {
		o.lives(s.owner.Key, all)
	}
	for _, x := range s.entities {
		x.lives(s.owner.Key, all)
	}
	if s.hub != nil {
		maps.Copy(all, s.hub.lives())
	}
	return all
}

func (s *Secondaries) owns(obj metav1.Object) bool {
	o, ok := s.marks.OwnerOf(obj)
	return ok && o.Key == s.owner.Key
}

func (s *Secondaries) foreign(obj client.Object) error {
	err := &existsError{name: obj.GetName()}
	s.event(obj, actionCreate, Event{Key: s.owner.Key, Type: corev1.EventTypeWarning, Reason: ReasonResourceExists, Message: err.Error()})
	return fmt.Errorf("apply %s of %s: %w", client.ObjectKeyFromObject(obj), s.owner.Key, err)
}

// count returns how many secondaries of the kind all primaries have, for the limits of deletes.
func (s *Secondaries) count(obj client.Object) (int, error) {
	kind, err := apiutil.GVKForObject(obj, s.client.Scheme())
	if o := s.ofKind(kind); o != nil {
		return max(1, o.size()), err
	}
	return 1, err
}

// Delete deletes a secondary of this primary, within the module's limits. A missing object is no error.
func (s *Secondaries) Delete(ctx context.Context, obj client.Object) error {
	found := obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // A deep copy has the type of the original.
	switch err := s.live.Get(ctx, client.ObjectKeyFromObject(obj), found); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s of %s: %w", client.ObjectKeyFromObject(obj), s.owner.Key, err)
	}
	if !s.owns(found) || found.GetDeletionTimestamp() != nil {
		return nil
	}
	owned, err := s.count(obj)
	if err != nil {
		return err
	}
	if err := object.DeleteExactly(deletes.Owning(ctx, owned), s.client, found); err != nil {
		return fmt.Errorf("delete %s of %s: %w", client.ObjectKeyFromObject(obj), s.owner.Key, err)
	}
	s.synced(found, actionDelete, messageDeleted)
	return nil
}

// DeleteOthers deletes all other secondaries of the primary, within the module's limits. What the cache lacks follows
// with its event.
func (s *Secondaries) DeleteOthers(ctx context.Context, wanted ...client.Object) error {
	all, err := s.list(ctx, anyLife)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, obj := range wanted {
		name, err := s.nameOf(obj)
		if err != nil {
			return err
		}
		keep[name] = true
	}
	others := slices.DeleteFunc(all, func(obj client.Object) bool {
		name, err := s.nameOf(obj) // No error: the kind is of Options.Owns.
		return err != nil || keep[name]
	})
	return s.deleteAll(ctx, others)
}

func (s *Secondaries) nameOf(obj client.Object) (string, error) {
	kind, err := apiutil.GVKForObject(obj, s.client.Scheme())
	return kind.GroupKind().String() + " " + client.ObjectKeyFromObject(obj).String(), err
}

func (s *Secondaries) list(ctx context.Context, f func(bucket.Birth) bool) ([]client.Object, error) {
	var all []client.Object
	for _, o := range s.objects {
		found, err := o.ofPrimary(ctx, s.owner.Key, f)
		if err != nil {
			return nil, err
		}
		for _, obj := range found {
			if o, ours := s.marks.OwnerOf(obj); ours && o.Key == s.owner.Key && f(o.Life) {
				all = append(all, obj)
			}
		}
	}
	return all, nil
}

func (s *Secondaries) deleteWhere(ctx context.Context, f func(bucket.Birth) bool) (found bool, err error) {
	all, err := s.list(ctx, f)
	if err != nil {
		return false, err
	}
	return len(all) > 0, s.deleteAll(ctx, all)
}

// deleteAll continues after one that cannot be deleted.
func (s *Secondaries) deleteAll(ctx context.Context, all []client.Object) error {
	var errs []error
	for _, obj := range all {
		errs = append(errs, s.Delete(ctx, obj))
	}
	return errors.Join(errs...)
}
