// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/state"
)

func hasFinalizer(cluster *hubv1.Cluster) bool {
	return controllerutil.ContainsFinalizer(cluster, hubv1.FinalizerCluster)
}

// finish needs neither Secret nor remote, and does not wait: the end of the removal triggers the next reconcile.
func (r *reconciler) finish(ctx context.Context, cluster *hubv1.Cluster) (ctrl.Result, error) {
	if !hasFinalizer(cluster) {
		return ctrl.Result{}, nil
	}
	s := r.memory.of(cluster.Name)
	if r.removals.isStopping(s) { // The Cluster had vanished. The end of the stop triggers the next reconcile.
		return ctrl.Result{}, nil
	}
	if s.removal == nil {
		result, may, err := r.mayRemove(ctx, cluster)
		if err != nil || !may {
			return result, err
		}
	}
	if err := r.takeUp(ctx, cluster); err != nil {
		return ctrl.Result{}, err
	}
	removing := r.removals.begin(ctx, s, r.remotes.Remove, false)
	if removing != nil && !removing.isDone() {
		if wait := settleTime - time.Since(removing.began); wait > 0 { // Most removals are done by then.
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		info, _ := r.remotes.Status(registry.ClusterName(cluster.Name))
		again, err := r.reportAsRunner(ctx, cluster, r.statusOf(cluster, clusterstatus.LastReported(cluster), info), info)
		return ctrl.Result{RequeueAfter: again}, err
	}
	end, err := endOf(removing)
	if removing == nil && cluster.Annotations[hubv1.AnnotationID] != "" {
		end = hubcontroller.Warning(eventAbandoned, "", fmt.Sprintf(noteAbandoned, noteRestarted))
	}
	if err != nil {
		r.removals.forget(s) // The retry is a new removal.
		return ctrl.Result{}, err
	}
	logAbandoned(ctx, removing)
	return ctrl.Result{}, r.release(ctx, cluster, end)
}

const heldRetry = 15 * time.Second // heldRetry is how often the removal of a Cluster is tried again that is held.

// mayRemove: a Cluster that went with its kind's definition has vanished and gets no cleanup step; a held one keeps its app.
func (r *reconciler) mayRemove(ctx context.Context, cluster *hubv1.Cluster) (result ctrl.Result, may bool, err error) {
	err = r.place.OnPurpose(ctx, hubv1.GroupVersion.WithKind("Cluster"), cluster)
	if errors.Is(err, evidence.ErrNone) {
		if removing := r.removals.stop(ctx, r.memory.of(cluster.Name)); removing != nil {
			return result, false, nil // Its end triggers the next reconcile.
		}
		log.FromContext(ctx).Info("A Cluster is deleted with the definition of its kind: no cleanup step runs", "reason", err.Error())
		return result, false, r.release(ctx, cluster, hubcontroller.Warning(eventAbandoned, "", fmt.Sprintf(noteAbandoned, noteDefinition)))
	}
	if err != nil {
		return result, false, fmt.Errorf("judge the deletion of the Cluster: %w", err)
	}
	_, isKnown := r.remotes.Status(registry.ClusterName(cluster.Name))
	neverRan := cluster.Annotations[hubv1.AnnotationID] == "" && !isKnown
	if neverRan || cluster.Annotations[hubv1.AnnotationDeregister] == string(cluster.UID) {
		return result, true, nil
	}
	all, err := r.cachedClusters(ctx)
	if err != nil {
		return result, false, err
	}
	held := r.remotes.AdmitRemoval(ctx, registry.Removal{Name: cluster.Name, UID: cluster.UID, Fleet: len(all)})
	if !deletes.IsHeld(held) {
		return result, held == nil, held
	}
	return r.keep(ctx, cluster, held)
}

func (r *reconciler) keep(ctx context.Context, cluster *hubv1.Cluster, held error) (result ctrl.Result, may bool, err error) {
	if err := r.remotes.AllowDeletes(ctx, registry.ClusterName(cluster.Name), cluster.Annotations[hubv1.AnnotationAllowDeletes]); err != nil {
		log.FromContext(ctx).Error(err, "Failed to allow held deletes")
	}
	info, _ := r.remotes.Status(registry.ClusterName(cluster.Name))
	found, err := r.readCredentials(ctx, cluster, info)
	if err != nil {
		return result, false, err
	}
	runs, err := r.ensure(ctx, cluster, found, RoleRunner)
	if err != nil {
		return result, false, err
	}
	info = runs.info
	info.DeletesHeld = state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonLimitExceeded, Message: held.Error()}
	if refused, ok := errors.AsType[*deletes.HeldError](held); ok {
		info.DeletesHeld.Reason = string(refused.Reason)
	}
	again, err := r.reportAsRunner(ctx, cluster, r.statusOf(cluster, clusterstatus.LastReported(cluster), info), info)
	return ctrl.Result{RequeueAfter: sooner(again, wait.Jitter(heldRetry, 0.5))}, false, err
}

func (r *reconciler) release(ctx context.Context, cluster *hubv1.Cluster, end hubcontroller.Event) error {
	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, hubv1.FinalizerCluster)
	err := hubcontroller.Patch(ctx, r.Client, before, cluster)
	if apierrors.IsNotFound(err) { // The Cluster is gone; the cache is stale.
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the finalizer: %w", err)
	}
	r.events.Record(cluster, end)
	return nil // The reconcile of the deletion event forgets it.
}

// takeUp posts the desired state for a removal that an earlier process began: cleanup steps need an app. It does nothing if this
// process has begun the removal, or no app ever was or can start.
func (r *reconciler) takeUp(ctx context.Context, cluster *hubv1.Cluster) error {
	info, known := r.remotes.Status(registry.ClusterName(cluster.Name))
	if known || r.memory.of(cluster.Name).removal != nil || cluster.Annotations[hubv1.AnnotationID] == "" || clusterstatus.IsPaused(cluster) {
		return nil
	}
	found, err := r.readCredentials(ctx, cluster, info)
	if err != nil || !found.Usable() {
		return err
	}
	_, err = r.ensure(ctx, cluster, found, RoleRunner)
	return err
}

// isClear stops the remote of an earlier Cluster of the same name. It is left if another writer removed our finalizer, the
// Cluster was deleted while the finalizer was added, or the hub's API server lost its data and got them again.
func (r *reconciler) isClear(ctx context.Context, cluster *hubv1.Cluster) (info registry.Status, clear bool) {
	s := r.memory.of(cluster.Name)
	if s.removal != nil && !s.removal.isDone() {
		return registry.Status{}, false
	}
	r.removals.forget(s)
	info, known := r.remotes.Status(registry.ClusterName(cluster.Name))
	if !known || isOf(info, cluster) {
		return info, true
	}
	r.removals.stop(ctx, s)
	return info, false
}

// clear forgets a Cluster. If its remote was not removed, it has vanished: the remote is stopped first, and keeps its objects.
func (r *reconciler) clear(ctx context.Context, name string) {
	s := r.memory.of(name)
	if info, known := r.remotes.Status(registry.ClusterName(name)); known && info.Epoch > 0 && s.removal == nil {
		log.FromContext(ctx).Info("A Cluster has vanished without a deletion: its app stops, and no cleanup step runs")
	}
	if removing := r.removals.stop(ctx, s); removing == nil || removing.isDone() {
		r.removals.forget(s)
		r.suspects.Forget(name)
	}
	r.memory.forget(s)
}

const (
	noteDeregistered = "Cluster deregistered, its app has stopped"
	noteAbandoned    = "Cluster removed with incomplete cleanup: %s"
	noteRestarted    = "the removal began again, because the hub restarted or could not write to the remote, and the Cluster " +
		"is paused or its credentials cannot be used, so no cleanup step ran in the remote"
	noteDefinition  = "it was deleted with the definition of its kind, so no cleanup step ran and its objects stay in the remote"
	noteStillEnding = "the app is fenced and sends no more requests, but it has not ended in time"
)

// endOf gets nil if there was no remote to remove. After an error the removal must begin again.
func endOf(removing *removal) (hubcontroller.Event, error) {
	deregistered := hubcontroller.Normal(eventDeregistered, "", noteDeregistered)
	if removing == nil {
		return deregistered, nil
	}
	abandoned := func(what string) hubcontroller.Event {
		return hubcontroller.Warning(eventAbandoned, "", fmt.Sprintf(noteAbandoned, what))
	}
	var left *registry.AbandonedError
	switch err := removing.err; {
	case errors.As(err, &left) && left.Gate != nil && len(left.Steps) > 0: // This hub may do them later, or another one.
		return hubcontroller.Event{}, fmt.Errorf("remove the remote: this hub may not write to it, and tries again: %w", err)
	case errors.As(err, &left):
		return abandoned(describeAbandoned(left)), nil
	case err == nil, errors.Is(err, registry.ErrNotFound):
		return deregistered, nil
	case errors.Is(err, context.DeadlineExceeded):
		return abandoned(noteStillEnding), nil
	default:
		return hubcontroller.Event{}, fmt.Errorf("remove the remote: %w", err)
	}
}

// logAbandoned logs all steps: an event has room for some only.
func logAbandoned(ctx context.Context, removing *removal) {
	var left *registry.AbandonedError
	if removing != nil && errors.As(removing.err, &left) {
		log.FromContext(ctx).Info("Cluster removed with incomplete cleanup", "steps", left.Steps, "cause", clusterstatus.WithAdvice(left.Why, left.Problem))
	}
}

const maxStepsNote = 700 // maxStepsNote bounds the list of cleanup steps in an event, so that the cause has room after it.

// describeAbandoned names the steps first, since the operator must do them by hand.
func describeAbandoned(left *registry.AbandonedError) string {
	short := *left
	length := 0
	for i, step := range left.Steps {
		if length += len(step) + len(", "); length > maxStepsNote {
			short.Steps = append(slices.Clone(left.Steps[:i]), fmt.Sprintf("and %d more, see the hub's log", len(left.Steps)-i))
			break
		}
	}
	return clusterstatus.WithAdvice(short.Error(), left.Problem)
}
