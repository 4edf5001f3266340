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

// The bounds of the time of a report.
const (
	// keepsReady is how long a Cluster that was Ready keeps its status, from the start of the hub, while its remote waits for its first
	// turn in this process. Most of them are Ready a moment later. If each of them was reported as Unknown until then, every restart of
	// the hub would look like the loss of the fleet, and cost two writes and an event for each Cluster.
	keepsReady = 30 * time.Second
	// keepsTaken is how long it does so, from the moment when this hub has it, if another runner reported it last. That runner
	// may have ended ten seconds before the Cluster could be taken, and Ready must not be True for longer than 25 s after that.
	keepsTaken = 10 * time.Second
	staysNew   = 10 * time.Second // staysNew is how long a Cluster without a status stays without one, in the same way.
	// settleTime is how long a transient state must last to be reported. A remote passes through three of these states within a
	// fraction of a second when it starts; when a hub starts, thousands of remotes do so together.
	settleTime = time.Second
	// longStart is how long an app starts before its controllers are reported one by one. Each controller that starts is a
	// change of the status, and most apps are Ready, or have failed again, before a user could read it.
	longStart = 10 * time.Second
	// outrankedFor is how long a hub leaves the report of a runner with a higher epoch as it is. A hub that is no longer the runner
	// learns that within a few Lease durations. If it still is the runner after that, epochs have begun again at one: the installation
	// was created again, perhaps in another namespace, and its Clusters were kept.
	outrankedFor = time.Minute
)

// timing is what decides, beside a status, when it is reported.
type timing struct {
	hasRole   bool
	role      Role      // of this hub, as of the last reconcile, with hasRole
	turn      time.Time // until when the first turn of the remote is awaited; zero if it was had, or is not worth waiting for
	outranked time.Time // since when the status names another runner, with a higher epoch than this hub has; zero if it does not
}

// await notes a Cluster that the hub found when it started. See noteRole for those with a status.
func (t *timing) await(cluster *hubv1.Cluster, now time.Time) {
	if isNew(cluster.Status) {
		t.turn = now.Add(staysNew)
	}
}

// noteRole notes what this hub does with a Cluster, as the runner with this name and epoch if it runs it. A Cluster that it runs
// from now on, and that was Ready before, is one whose turn comes: another hub ran it, or this hub before its restart.
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

// wasReady reports whether the last report of a Cluster is that it is Ready as its spec is now.
func wasReady(cluster *hubv1.Cluster) bool {
	return cluster.Status.ObservedGeneration == cluster.Generation &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady)
}

// isNew reports whether no hub has reported a status yet. The CRD has a default for it.
func isNew(status hubv1.ClusterStatus) bool { return status.ObservedGeneration <= 0 }

// isTransient reports whether a status says that it is not known yet whether the Cluster is Ready.
func isTransient(status *hubv1.ClusterStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, hubv1.ConditionReady)
	return ready.Status == metav1.ConditionUnknown && ready.Reason != hubv1.ReasonPaused
}

// isBlocked reports whether a controller keeps the Cluster from being Ready.
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
