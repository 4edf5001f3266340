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
	// adopted is the delay if a predicate drops the event of the new finalizer.
	adopted  = time.Second
	outdated = 100 * time.Millisecond
	// keptBase and keptMax bound the doubling delay of a deletion that keeps the finalizer; so does Options.Resync.
	keptBase, keptMax = 100 * time.Millisecond, 5 * time.Minute
)

// adopt adds the finalizer and ends the pass: nothing is created before it, so that no deletion is missed.
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

// setFinalizers fails if the object has changed since it was read.
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
