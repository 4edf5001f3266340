// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SetFinalizer adds a finalizer to the object, if it is not there. A reconciler of this package has one of its
// own, which is enough for most providers.
func (c *Controller[O]) SetFinalizer(ctx context.Context, finalizer string) error {
	if slices.Contains(c.object.GetFinalizers(), finalizer) {
		return nil
	}
	err := c.changeFinalizers(ctx, func(has []string) []string {
		if slices.Contains(has, finalizer) {
			return has
		}
		return append(has, finalizer)
	})
	if err != nil {
		return fmt.Errorf("add finalizer %s to %s: %w", finalizer, c.object.GetName(), err)
	}
	return nil
}

// RemoveFinalizer removes a finalizer from the object, if it is there. Within a task it does so after the outcome
// has been written, and not at all if the task fails: the object may go with its last finalizer, and must not
// before it is known that the task is done. With the last finalizer the Lease of the controller's condition type
// goes, if there is one. An object that has gone is no error, and after the removal that
// lets it go UpdateCondition and UpdateStatus do nothing any more.
func (c *Controller[O]) RemoveFinalizer(ctx context.Context, finalizer string) error {
	if c.running != nil {
		c.letGo = append(c.letGo, finalizer)
		return nil
	}
	has := c.object.GetFinalizers()
	if !slices.Contains(has, finalizer) {
		return nil
	}
	deleting := !c.object.GetDeletionTimestamp().IsZero()
	if deleting && len(has) == 1 {
		if err := c.place.discard(ctx); err != nil {
			return fmt.Errorf("delete the lock %s of %s: %w", c.key.kind, c.object.GetName(), err)
		}
	}
	err := c.changeFinalizers(ctx, func(has []string) []string {
		return slices.DeleteFunc(has, func(f string) bool { return f == finalizer })
	})
	switch {
	case apierrors.IsNotFound(err):
		c.gone = true
		return nil
	case err != nil:
		return fmt.Errorf("remove finalizer %s from %s: %w", finalizer, c.object.GetName(), err)
	}
	c.gone = deleting && len(c.object.GetFinalizers()) == 0
	return nil
}

// Forget deletes what the lock is kept in, if that is not the object: a Lease. The next Guard begins to count attempts
// anew. It is for those who have finalizers of their own, and do not remove them with RemoveFinalizer: to be called
// when the object goes, and there is nothing left to lock. It must not be called within a task.
func (c *Controller[O]) Forget(ctx context.Context) error {
	if err := c.place.discard(ctx); err != nil {
		return fmt.Errorf("delete the lock %s of %s: %w", c.key.kind, c.object.GetName(), err)
	}
	return nil
}

// removeLater removes what was to be removed in a task.
func (c *Controller[O]) removeLater(ctx context.Context, done bool) error {
	finalizers := c.letGo
	c.letGo = nil
	if !done {
		return nil
	}
	for _, f := range finalizers {
		if err := c.RemoveFinalizer(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// changeFinalizers patches nothing but the finalizers, of the object that we know and no other of its name. If
// somebody else was faster it begins anew with theirs, since theirs are none of our business.
//
// This is no server-side apply: that would leave a finalizer which somebody else owns, too, as after a restore
// from a backup.
func (c *Controller[O]) changeFinalizers(ctx context.Context, f func([]string) []string) error {
	var live client.Object = c.object
	for conflicts := 0; ; conflicts++ {
		finalizers := f(slices.Clone(live.GetFinalizers()))
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": c.key.uid, "resourceVersion": live.GetResourceVersion(), "finalizers": finalizers,
		}})
		if err != nil {
			return err
		}
		target := c.metadata()
		err = c.host.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch),
			client.FieldOwner(c.host.options.identity()))
		switch {
		case err == nil:
			c.object.SetFinalizers(target.GetFinalizers())
			if conflicts == 0 {
				c.object.SetResourceVersion(target.GetResourceVersion())
				c.basis.resourceVersion = target.GetResourceVersion()
			}
			return nil
		case !apierrors.IsConflict(err) || conflicts == maxConflicts:
			return err
		}
		live = c.metadata()
		if err := c.host.live.Get(ctx, client.ObjectKeyFromObject(c.object), live); err != nil {
			return err
		}
		if live.GetUID() != c.key.uid {
			return apierrors.NewNotFound(c.host.resource(), c.object.GetName())
		}
	}
}

func (c *Controller[O]) metadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(c.host.gvk)
	m.SetNamespace(c.object.GetNamespace())
	m.SetName(c.object.GetName())
	return m
}
