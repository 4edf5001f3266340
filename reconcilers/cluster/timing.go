// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	// keepsReady: a Cluster that was Ready keeps its status from the hub's start until its first turn. Unknown until then would look
	// like the loss of the fleet, and cost two writes and an event each.
	keepsReady = 30 * time.Second
	// keepsTaken is for the report of another runner, which may have ended 10 s before: Ready stays True for 25 s at most.
	keepsTaken = 10 * time.Second
	staysNew   = 10 * time.Second // staysNew is how long a Cluster without a status stays without one, in the same way.
	// settleTime: a starting remote passes three states in a fraction of a second, thousands together when a hub starts.
	settleTime = time.Second
	// longStart is before controllers are reported one by one: most apps are Ready or have failed before a user could read it.
	longStart = 10 * time.Second
	// outrankedFor is how long the report of a higher epoch stays: a former runner learns that within a few Leases. After it, epochs
	// have begun again: the installation was made again, and its Clusters were kept.
	outrankedFor = time.Minute
)

type timing struct {
	hasRole   bool
	role      Role      // of this hub, as of the last reconcile, with hasRole
	turn      time.Time // until when the first turn of the remote is awaited; zero if it was had, or is not worth waiting for
	outranked time.Time // since when the status names another runner, with a higher epoch than this hub has; zero if it does not
}

func (t *timing) await(cluster *hubv1.Cluster, now time.Time) {
	if isNew(cluster.Status) {
		t.turn = now.Add(staysNew)
	}
}

// noteRole: a Cluster that was Ready and runs here from now on has its turn, after another hub or this one's restart.
func (t *timing) noteRole(cluster *hubv1.Cluster, role Role, runner hubv1.RunnerStatus, now time.Time) {
	if t.hasRole && t.role == role {
		return
	}
	t.hasRole, t.role = true, role
	if role != RoleRunner || !wasReady(cluster) {
		return
	}
	t.turn = now.Add(keepsReady)
	if before := cluster.Status.Runner; before.Name != "" && (before.Name != runner.Name || before.Epoch != runner.Epoch) {
		t.turn = now.Add(keepsTaken)
	}
}

// reportIn returns how long a status of a Cluster is kept back, or zero to report it now, and for how long the report leaves out the
// controllers of an app that has just begun to start, unless one is known to be blocked. A Cluster that is deleted awaits nothing.
func (t *timing) reportIn(cluster *hubv1.Cluster, status *hubv1.ClusterStatus, info registry.Status, now time.Time) (wait, brief time.Duration) {
	unknown := isTransient(status)
	if !unknown || !now.Before(t.turn) || !isNew(cluster.Status) && !wasReady(cluster) {
		t.turn = time.Time{}
	}
	if unknown && cluster.DeletionTimestamp.IsZero() {
		wait = max(0, t.turn.Sub(now), settleTime-now.Sub(info.Since))
	}
	before, runner := cluster.Status.Runner, status.Runner
	switch isHigher := runner.Name != "" && before.Name != runner.Name && before.Epoch > runner.Epoch; {
	case !isHigher:
		t.outranked = time.Time{}
	case t.outranked.IsZero():
		t.outranked = now
	}
	if !t.outranked.IsZero() {
		wait = max(wait, outrankedFor-now.Sub(t.outranked))
	}
	if info.State == state.StateStarting && !isBlocked(status) {
		brief = max(0, longStart-now.Sub(info.Since))
	}
	return wait, brief
}

func wasReady(cluster *hubv1.Cluster) bool {
	return cluster.Status.ObservedGeneration == cluster.Generation &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady)
}

// isNew reports whether no hub has reported a status yet. The CRD has a default for it.
func isNew(status hubv1.ClusterStatus) bool { return status.ObservedGeneration <= 0 }

func isTransient(status *hubv1.ClusterStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, hubv1.ConditionReady)
	return ready.Status == metav1.ConditionUnknown && ready.Reason != hubv1.ReasonPaused
}

func isBlocked(status *hubv1.ClusterStatus) bool {
	return meta.IsStatusConditionFalse(status.Conditions, hubv1.ConditionReady) && slices.ContainsFunc(status.Modules, func(m hubv1.ModuleStatus) bool {
		return slices.ContainsFunc(m.Controllers, func(c hubv1.ControllerStatus) bool { return c.State == hubv1.ModuleWaiting })
	})
}

// sooner returns the shorter of two durations. Zero means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
