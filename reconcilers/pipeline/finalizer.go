// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// adopted is the delay until the next reconcile of an object that has got its finalizer, if a predicate of the
	// controller drops the event of that change.
	adopted = time.Second
	// outdated is the delay until the next reconcile of an object whose finalizers or status could not be written because
	// of a conflict.
	outdated = 100 * time.Millisecond
	// keptBase is the delay after the first deletion that keeps the finalizer, and keptMax the longest delay, unless
	// Options.Resync is shorter. In between the delay doubles.
	keptBase, keptMax = 100 * time.Millisecond, 5 * time.Minute
)

// adopt adds the finalizer, so that no later deletion is missed, and ends the pass: nothing is created for an object
// without the finalizer. The event of the change begins the next pass.
func (r *Reconciler[O]) adopt(ctx context.Context, s subject[O]) (reconcile.Result, error) {
	with := append(slices.Clone(s.obj.GetFinalizers()), r.options.identity())
	err := r.setFinalizers(ctx, s, with)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: outdated}, nil
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("add the finalizer to %s %s: %w", r.gvk.Kind, s.key, err))
	}
	return r.conclude(ctx, s, pending())
}

// release removes the finalizer from an object whose deletion has succeeded.
func (r *Reconciler[O]) release(ctx context.Context, s subject[O]) (reconcile.Result, error) {
	without := slices.DeleteFunc(slices.Clone(s.obj.GetFinalizers()), func(f string) bool {
		return f == r.options.identity()
	})
	err := r.setFinalizers(ctx, s, without)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: outdated}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer of %s %s: %w", r.gvk.Kind, s.key, err)
	}
	return reconcile.Result{}, nil
}

// setFinalizers changes the finalizers of an object, unless the object has changed since it was read.
func (r *Reconciler[O]) setFinalizers(ctx context.Context, s subject[O], finalizers []string) error {
	known := &metav1.ObjectMeta{
		Namespace: s.key.Namespace, Name: s.key.Name, UID: s.uid, ResourceVersion: s.obj.GetResourceVersion(),
	}
	written, err := r.finalizers.Set(ctx, known, finalizers)
	if err == nil {
		s.obj.SetResourceVersion(written.GetResourceVersion())
	}
	return err
}
