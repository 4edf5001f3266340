// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
)

// Share is this hub's share, where several have one fleet. Methods are for many goroutines, and do not block.
type Share interface {
	// RoleOf returns what this hub does with a Cluster, and for RoleRunner how the status describes it, without Since: zero for a
	// hub with all Clusters. The registry then has no remote of that name for another UID.
	RoleOf(name registry.ClusterName, uid types.UID) (Role, hubv1.RunnerStatus)
	// Prepared says that a Cluster was reconciled with the RoleWarm: its remote is posted to the registry, or cannot be.
	Prepared(uid types.UID)
	Forget(name registry.ClusterName) // Forget says that the Cluster of a name is gone.
	Source() source.Source            // Source triggers a reconcile of each Cluster whose role has changed.
}

// Exporter is a Share that exports the metrics of a part of the Clusters. A Share that is none exports all of them.
type Exporter interface {
	// Exported: one hub exports a Cluster's metrics, the runner or one of those left; none or two while it moves.
	Exported() func(uid types.UID) bool
}

func exportedBy(share Share) func(uid types.UID) bool {
	if part, ok := share.(Exporter); ok {
		return part.Exported()
	}
	return func(types.UID) bool { return true }
}

// Role is what a hub does with a Cluster.
type Role int

// Without sharing all Clusters have the first one.
const (
	RoleRunner Role = iota // RoleRunner is the role of the hub that runs the app of the Cluster and reports its state.
	// RoleWarm runs it next: the app is built once the runner reports that it starts, waits, and writes nothing.
	RoleWarm
	RoleNone // RoleNone is the role of all others.
)

type everything struct{} // everything is the Share of a hub that has all Clusters.

func (everything) RoleOf(registry.ClusterName, types.UID) (Role, hubv1.RunnerStatus) {
	return RoleRunner, hubv1.RunnerStatus{}
}
func (everything) Prepared(types.UID)          {}
func (everything) Forget(registry.ClusterName) {}
func (everything) Source() source.Source       { return nil }

func (r *reconciler) actAs(ctx context.Context, cluster *hubv1.Cluster) (runs bool, result ctrl.Result, err error) {
	role, runner := r.share.RoleOf(registry.ClusterName(cluster.Name), cluster.UID)
	r.memory.of(cluster.Name).noteRole(cluster, role, runner, time.Now())
	switch {
	case role == RoleRunner:
		if !cluster.DeletionTimestamp.IsZero() {
			r.suspects.Name(cluster.Name, cluster.UID)
		}
		return true, ctrl.Result{}, nil
	case role == RoleWarm && cluster.DeletionTimestamp.IsZero():
		result, err = r.keepWarm(ctx, cluster)
		return false, result, err
	}
	r.letGo(ctx, cluster.Name)
	if role == RoleWarm {
		r.share.Prepared(cluster.UID) // A Cluster that is being deleted is not kept warm.
	}
	return false, ctrl.Result{}, nil
}

func (r *reconciler) statusOf(cluster *hubv1.Cluster, found clusterstatus.Credentials, info registry.Status) hubv1.ClusterStatus {
	status := clusterstatus.Of(cluster, found, info)
	_, now := r.share.RoleOf(registry.ClusterName(cluster.Name), cluster.UID)
	before := cluster.Status.Runner
	if now.Name != "" {
		now.Since = metav1.Now().Rfc3339Copy()
		if before.Name == now.Name && before.Epoch == now.Epoch {
			now.Since = before.Since
		}
	}
	status.Runner = now
	if r.tunnels != nil && cluster.Spec.Via == hubv1.ViaTunnel {
		status.Tunnel = r.tunnels.Status(cluster)
	}
	return status
}

// reportAsRunner reports the status of a Cluster, unless this hub no longer runs it in the epoch of the status: the role may have
// changed since the reconcile began. That change triggers another reconcile. It returns when to report again: see timing.
func (r *reconciler) reportAsRunner(
	ctx context.Context, cluster *hubv1.Cluster, status hubv1.ClusterStatus, info registry.Status,
) (again time.Duration, err error) {
	role, now := r.share.RoleOf(registry.ClusterName(cluster.Name), cluster.UID)
	if role != RoleRunner || now.Name != status.Runner.Name || now.Epoch != status.Runner.Epoch {
		return 0, nil
	}
	s := r.memory.of(cluster.Name)
	wait, brief := s.reportIn(cluster, &status, info, time.Now())
	if wait > 0 {
		if !s.outranked.IsZero() {
			log.FromContext(ctx).Info("Another runner with a higher epoch has reported the Cluster; this hub reports it when that runner does not remain",
				"runner", cluster.Status.Runner.Name, "epoch", cluster.Status.Runner.Epoch, "own", now.Epoch)
		}
		return wait, nil
	}
	if brief > 0 {
		for i := range status.Modules {
			status.Modules[i].Controllers = nil
		}
	}
	return brief, r.report(ctx, cluster, status)
}

// letGo keeps objects and Cluster.
func (r *reconciler) letGo(ctx context.Context, name string) {
	s := r.memory.of(name)
	r.memory.use(s, "")
	s.written, s.outranked, s.secret = nil, time.Time{}, nil
	removing := r.removals.letGo(ctx, s)
	if removing == nil || !removing.isDone() {
		return // The end of the stop triggers the next reconcile.
	}
	r.removals.forget(s)
}

func (r *reconciler) keepWarm(ctx context.Context, cluster *hubv1.Cluster) (ctrl.Result, error) {
	r.memory.use(r.memory.of(cluster.Name), cluster.Spec.KubeconfigSecretRef.Name)
	last, isClear := r.isClear(ctx, cluster)
	if !isClear {
		return ctrl.Result{}, nil // The end of the removal triggers the next reconcile.
	}
	found, err := r.readCredentials(ctx, cluster, last)
	if err != nil {
		return ctrl.Result{}, err
	}
	if clusterstatus.IsPaused(cluster) || hasStarted(cluster, found) {
		if _, err := r.ensure(ctx, cluster, found, RoleWarm); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.share.Prepared(cluster.UID)
	return ctrl.Result{RequeueAfter: found.changesIn(time.Now())}, nil
}

// hasStarted: the runner starts the app with this spec and credentials. An app that ends the process would otherwise end both
// hubs at once, before the journal shows it.
func hasStarted(cluster *hubv1.Cluster, found credentials) bool {
	modules := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionModulesReady)
	return modules != nil && modules.Status != metav1.ConditionUnknown && modules.Reason != hubv1.ReasonQuarantined &&
		modules.ObservedGeneration == cluster.Generation && cluster.Status.Credentials.Fingerprint == found.Reported.Fingerprint
}
