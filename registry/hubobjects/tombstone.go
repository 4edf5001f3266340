// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/deletes"
)

// Tombstone is the last known state of an object that has gone.
type Tombstone struct {
	// Object is the last known state; of a Secret only the name, the UID, the revision, the labels and the times.
	Object client.Object
	// Seen says that a watch has reported the object as deleted. The object, or its kind, may have been deleted, or it
	// has lost the selected labels: Declare asks which. It is false for an object that a list lacks, since the hub may
	// have lost its data, and for one that exists with another key.
	Seen bool

	of *Objects
}

// Deleted returns the tombstone of an object that no longer belongs to the app, for an hour and the life of the app.
func (o *Objects) Deleted(key client.ObjectKey) (Tombstone, bool) {
	found, _ := o.graves.Get(key)
	t, ok := found.(Tombstone)
	if !ok {
		return Tombstone{}, false
	}
	return Tombstone{Object: o.copyOf(t.Object), Seen: t.Seen, of: o}, true
}

// Declare returns the context for the deletes that follow from the tombstone. They are declared if the object was
// reported as deleted, or was being deleted when last seen, and if the hub's API server confirms it (see the package).
// Otherwise Declare returns ctx, and the deletes count towards the limits. An error means that the API server does not
// tell: return it, so that the reconcile is tried again.
func (t Tombstone) Declare(ctx context.Context) (context.Context, error) {
	if t.of == nil {
		return ctx, nil
	}
	if err := t.of.ended(); err != nil {
		return ctx, err
	}
	deleted, err := t.isDeleted(ctx)
	if err != nil || !deleted {
		return ctx, err
	}
	name := fmt.Sprintf("%T %s", t.Object, client.ObjectKeyFromObject(t.Object))
	return deletes.OnPurpose(ctx, deletes.Tombstone(name, t.Object.GetResourceVersion())), nil
}

// isDeleted: a watch also reports what has lost the selected labels, and what went with the definition of its kind.
func (t Tombstone) isDeleted(ctx context.Context) (bool, error) {
	if !t.Seen && t.Object.GetDeletionTimestamp() == nil {
		return false, nil
	}
	kind, o := t.of.informer.of.kind, &t.of.informer.pool.options
	ctx, cancel := context.WithTimeout(ctx, o.Chain.Timeout)
	defer cancel()
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(kind)
	err := o.Place.Reader.Get(ctx, client.ObjectKeyFromObject(t.Object), now)
	switch {
	case err == nil && now.UID == t.Object.GetUID(), evidence.IsNotServed(err):
		return false, nil
	case err == nil, apierrors.IsNotFound(err):
		// Read after the object had gone: it was there when the object went.
		err = o.Place.OnPurpose(ctx, kind, t.Object)
	}
	switch {
	case errors.Is(err, evidence.ErrNone):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("confirm that %s %s of the hub was deleted: %w", kind.Kind, client.ObjectKeyFromObject(t.Object), err)
	}
	return true, nil
}

// Limits of the tombstones of one Objects. A module whose tombstone is lost deletes without evidence, within the limits
// of undeclared deletes.
const (
	maxGraves = 10_000
	gravesFor = time.Hour
)

// purgeEvery is for places where nothing is deleted or looked up.
const purgeEvery = 10 * time.Minute

func (i *informer) purge(context.Context) {
	i.mu.RLock()
	users := slices.Collect(maps.Keys(i.users))
	i.mu.RUnlock()
	for _, o := range users {
		kept := sets.New(o.graves.Keys()...)
		o.graves.RemoveAll(func(key any) bool { return !kept.Has(key) })
	}
}

// remains keeps all of an object, but of a Secret only what identifies it. Its data may be in an annotation, too.
func (r resolved) remains(last client.Object) client.Object {
	if last == nil || !r.isSecrets() {
		return last
	}
	kept := r.Object.DeepCopyObject().(client.Object) // an empty one
	kept.SetNamespace(last.GetNamespace())
	kept.SetName(last.GetName())
	kept.SetUID(last.GetUID())
	kept.SetResourceVersion(last.GetResourceVersion())
	kept.SetCreationTimestamp(last.GetCreationTimestamp())
	kept.SetDeletionTimestamp(last.GetDeletionTimestamp())
	kept.SetLabels(maps.Clone(last.GetLabels()))
	kept.SetOwnerReferences(last.GetOwnerReferences())
	return kept
}
