// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/reconcilers/oldcrd"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// longStart is how long an app starts before its controllers are reported one by one. Each controller that starts is a
// change of the status, and most apps are Ready, or have failed again, before a user could read it.
const longStart = 10 * time.Second

// withoutControllers removes the controllers of an app that has just begun to start from the status, unless a controller
// is known to be blocked. It returns when to reconcile again, or zero if the controllers are included.
func withoutControllers(status *hubv1.ClusterStatus, info registry.Status, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(status.Conditions, hubv1.ConditionReady)
	blocked := ready.Status == metav1.ConditionFalse && slices.ContainsFunc(status.Modules, hasBlocked)
	wait := longStart - now.Sub(info.Since)
	if info.State != state.StateStarting || blocked || wait <= 0 {
		return 0
	}
	for i := range status.Modules {
		status.Modules[i].Controllers = nil
	}
	return wait
}

// hasBlocked reports whether a controller of a module is blocked.
func hasBlocked(m hubv1.ModuleStatus) bool {
	return slices.ContainsFunc(m.Controllers, func(c hubv1.ControllerStatus) bool { return c.State == hubv1.ModuleWaiting })
}

// settleTime is how long a transient state must last to be reported.
const settleTime = time.Second

// settles returns how long to wait before a transient state is reported, or zero to report it now. A remote passes
// through three of these states within a fraction of a second when it starts; when a hub starts, thousands of remotes do
// so together.
func settles(status hubv1.ClusterStatus, info registry.Status, now time.Time) time.Duration {
	if !isTransient(status) {
		return 0
	}
	return max(0, settleTime-now.Sub(info.Since))
}

// report writes the status if it differs from that of the Cluster, and records events of the changes. It returns a
// conflict if the Cluster is not the latest version.
func (r *reconciler) report(ctx context.Context, cluster *hubv1.Cluster, status hubv1.ClusterStatus) error {
	all := status
	before, err := oldcrd.Known(&r.writer, clusterstatus.Ours(cluster.Status))
	if err != nil {
		return fmt.Errorf("compare the status: %w", err)
	}
	if status, err = oldcrd.Known(&r.writer, status); err != nil {
		return fmt.Errorf("compare the status: %w", err)
	}
	if equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	desired := hubac.Cluster(cluster.Name).WithResourceVersion(cluster.ResourceVersion).WithStatus(clusterstatus.ApplyConfiguration(all))
	dropped, err := r.writer.Apply(ctx, r.Status(), desired, client.FieldOwner(hubcontroller.FieldManager), client.ForceOwnership)
	if len(dropped) > 0 {
		log.FromContext(ctx).Info("The CRD is older than the hub; the status leaves out the fields that it lacks. "+
			"Apply the CRD of this version", "fields", dropped)
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	r.written.noteStatus(cluster, desired)
	for _, t := range transitions(before, status) {
		log.FromContext(ctx).Info("Cluster changed", "reason", t.Reason, "note", t.Note)
		r.events.Record(cluster, t)
	}
	return nil
}
