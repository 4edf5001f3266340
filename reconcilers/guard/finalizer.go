// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetFinalizer adds a finalizer, if the object does not have it. A reconciler of this package adds its own.
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
		return fmt.Errorf("add finalizer %s to %s: %w", finalizer, c.object.GetName(), gone(err))
	}
	return nil
}

// RemoveFinalizer removes a finalizer, if the object has it. Within a task this waits until the outcome has been
// written, and does not happen if the task fails: the removal may delete the object. After the last finalizer it
// deletes the Lease of the condition type; then UpdateCondition and UpdateStatus do nothing. A deleted object is no
// error.
func (c *Controller[O]) RemoveFinalizer(ctx context.Context, finalizer string) error {
	if c.running != nil {
		c.letGo = append(c.letGo, finalizer)
		return nil
	}
	has := c.object.GetFinalizers()
	if !slices.Contains(has, finalizer) {
		return nil
	}
	if c.object.GetDeletionTimestamp().IsZero() || len(has) > 1 {
		return c.dropFinalizer(ctx, finalizer)
	}
	return c.dropLast(ctx, finalizer, c)
}

// Forget deletes the Lease with the lock, if there is one; Settled and the count of attempts begin again. A
// reconciler that removes its own finalizer without RemoveFinalizer must call it after that removal, outside of a
// task. Called earlier, a failed removal repeats the work. Host.Sweep deletes what a crash leaves. The error is
// ErrLocked if another process has a task.
func (c *Controller[O]) Forget(ctx context.Context) error {
	remove, err := c.discard(ctx)
	if err != nil {
		return err
	}
	return remove(ctx)
}

// discard returns a function that deletes the Lease, if there is one. The error says why the Lease must stay.
func (c *Controller[O]) discard(ctx context.Context) (remove func(context.Context) error, err error) {
	explained := func(err error) error {
		if err != nil {
			return fmt.Errorf("delete the lock %s of %s: %w", c.key.kind, c.object.GetName(), err)
		}
		return nil
	}
	drop, err := c.store.discard(ctx, c.isFree)
	return func(ctx context.Context) error { return explained(drop(ctx)) }, explained(err)
}

// dropLast removes a finalizer, then the Leases: until then they record that the work is done, for a reconcile that
// still sees the finalizer. If a lock is held, the finalizer stays.
func (c *Controller[O]) dropLast(ctx context.Context, finalizer string, locks ...*Controller[O]) error {
	removes := make([]func(context.Context) error, len(locks))
	for i, l := range locks {
		var err error
		if removes[i], err = l.discard(ctx); err != nil {
			return err
		}
	}
	if err := c.dropFinalizer(ctx, finalizer); err != nil {
		return err
	}
	var errs []error
	for _, remove := range removes {
		errs = append(errs, remove(ctx))
	}
	return errors.Join(errs...)
}

func (c *Controller[O]) dropFinalizer(ctx context.Context, finalizer string) error {
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
	c.gone = !c.object.GetDeletionTimestamp().IsZero() && len(c.object.GetFinalizers()) == 0
	return nil
}

// changeFinalizers patches the finalizers only, and only of the known UID. After a conflict it starts again from the
// current ones.
func (c *Controller[O]) changeFinalizers(ctx context.Context, f func([]string) []string) error {
	var live metav1.Object = c.object
	for conflicts := 0; ; conflicts++ {
		known := &metav1.ObjectMeta{
			Namespace: live.GetNamespace(), Name: live.GetName(), UID: c.key.uid, ResourceVersion: live.GetResourceVersion(),
		}
		has := live.GetFinalizers()
		wanted := f(slices.Clone(has))
		if conflicts > 0 && slices.Equal(has, wanted) {
			c.noteFinalizers(has, f)
			return nil
		}
		written, err := c.host.finalizers.Set(ctx, known, wanted)
		switch {
		case err == nil:
			c.noteFinalizers(written.GetFinalizers(), f)
			if conflicts == 0 {
				c.object.SetResourceVersion(written.GetResourceVersion())
				c.precondition.resourceVersion = written.GetResourceVersion()
			}
			return nil
		case !apierrors.IsConflict(err) || conflicts == maxConflicts:
			return err
		}
		if live, err = c.host.finalizers.Read(ctx, c.host.live, known); err != nil {
			return err
		}
		if live.GetUID() != c.key.uid {
			return apierrors.NewNotFound(c.host.resource(), c.object.GetName())
		}
	}
}

// noteFinalizers puts only our own change into the precondition: a change by another owner may matter to the next
// decision.
func (c *Controller[O]) noteFinalizers(has []string, own func([]string) []string) {
	c.object.SetFinalizers(slices.Clone(has))
	c.precondition.finalizers = own(c.precondition.finalizers)
}
