// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	// stopPatience is how long a reconcile waits for the clean-up of an app. That of a healthy
	// remote is done by then; for others the registry's event brings the Cluster back.
	stopPatience = 100 * time.Millisecond
	// stopRetry asks again, in case that event was for another life of the name.
	stopRetry = time.Second
)

// addFinalizer makes the deletion of the Cluster wait until its app has been stopped. It is
// written before anything is started, and alone: the update brings the Cluster back.
func (r *reconciler) addFinalizer(ctx context.Context, cluster *hubv1.Cluster) error {
	before := cluster.DeepCopy()
	controllerutil.AddFinalizer(cluster, hubv1.FinalizerCluster)
	if err := patch(ctx, r.Client, before, cluster); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

// finish stops the app of a Cluster that is being deleted, and lets go of it. It needs neither
// the Secret nor the remote.
func (r *reconciler) finish(ctx context.Context, cluster *hubv1.Cluster) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(cluster, hubv1.FinalizerCluster) {
		return ctrl.Result{}, nil
	}
	stopped, err := r.stop(ctx, cluster.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !stopped {
		info, _ := r.remotes.Info(registry.ClusterName(cluster.Name))
		status := statusOf(cluster, asReported(cluster), info)
		if wait := settles(status, info, time.Now()); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		return ctrl.Result{RequeueAfter: stopRetry}, r.report(ctx, cluster, status)
	}
	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, hubv1.FinalizerCluster)
	err = patch(ctx, r.Client, before, cluster)
	switch {
	case apierrors.IsNotFound(err): // It is gone already; the cache does not know yet.
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("remove the finalizer: %w", err)
	}
	r.events.tell(cluster, transition{corev1.EventTypeNormal, eventDeregistered, "The app was stopped"})
	return ctrl.Result{}, nil
}

// stop fences the remote's app at once, and reports whether it has been cleaned up, too.
func (r *reconciler) stop(ctx context.Context, name string) (stopped bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	err = r.remotes.Stop(ctx, registry.ClusterName(name))
	switch {
	case err == nil, errors.Is(err, registry.ErrNotFound):
		r.memory.forget(name)
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	}
	return false, fmt.Errorf("stop the app: %w", err)
}
