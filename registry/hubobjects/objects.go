// SPDX-License-Identifier: Apache-2.0

package hubobjects

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/hubwatch"
)

// Objects are the objects of the hub that belong to an app, and end with it. They are safe for use by many goroutines.
type Objects struct {
	inner   *hubwatch.Subscription
	binding *Binding
	kind    string // for people
}

var _ client.Reader = (*Objects)(nil)

// Get copies an object into obj, which must have the type of the selection's Object. An object that does not belong to
// the app is not found. Get waits for the initial objects, ten seconds at most.
func (o *Objects) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if o.binding.Context.Err() != nil {
		return context.Cause(o.binding.Context)
	}
	return o.ofApp(o.inner.Get(ctx, key, obj))
}

// List copies the objects of the app into a list. It accepts a namespace and labels, and no field selector, limit or
// continue token. It waits for the initial objects, ten seconds at most.
func (o *Objects) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if o.binding.Context.Err() != nil {
		return context.Cause(o.binding.Context)
	}
	return o.ofApp(o.inner.List(ctx, list, opts...))
}

func (o *Objects) ofApp(err error) error {
	if errors.Is(err, hubwatch.ErrEnded) && o.binding.Context.Err() != nil {
		return context.Cause(o.binding.Context)
	}
	return err
}

// Deleted returns the tombstone of an object that no longer belongs to the app, for an hour and the life of the app.
func (o *Objects) Deleted(key client.ObjectKey) (Tombstone, bool) {
	t, ok := o.inner.Deleted(key)
	if !ok {
		return Tombstone{}, false
	}
	return Tombstone{Object: o.inner.CopyOf(t.Object), Seen: t.Seen, of: o}, true
}

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

// Declare returns the context for the deletes that follow from the tombstone. They are declared if the object was
// reported as deleted, or was being deleted when last seen, and if the hub's API server confirms it (see the package).
// Otherwise Declare returns ctx, and the deletes count towards the limits. An error means that the API server does not
// tell: return it, so that the reconcile is tried again.
func (t Tombstone) Declare(ctx context.Context) (context.Context, error) {
	if t.of == nil {
		return ctx, nil
	}
	if t.of.binding.Context.Err() != nil {
		return ctx, context.Cause(t.of.binding.Context)
	}
	deleted, err := t.of.inner.IsDeleted(ctx, hubwatch.Tombstone{Object: t.Object, Seen: t.Seen})
	if err != nil || !deleted {
		return ctx, err
	}
	name := fmt.Sprintf("%T %s", t.Object, client.ObjectKeyFromObject(t.Object))
	return deletes.OnPurpose(ctx, deletes.Tombstone(name, t.Object.GetResourceVersion())), nil
}
