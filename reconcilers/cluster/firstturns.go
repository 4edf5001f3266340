// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// firstTurns are the Clusters that a hub found when it started, and whose remotes have not had their first turn in this process:
// it is not known yet whether they are Ready. Most of them are so a moment later. If each of them was reported as Unknown until
// then, every restart of the hub would look like the loss of the fleet, and cost two writes and an event for each Cluster.
type firstTurns struct {
	mu      sync.Mutex // protects the fields; held for map operations only
	waiting map[string]time.Time
	roles   map[string]Role // of this hub, as of the last reconcile of each Cluster
}

const (
	// keepsReady is how long a Cluster that was Ready keeps its status, from the start of the hub, while it waits for its turn.
	keepsReady = 30 * time.Second
	// keepsTaken is how long it does so, from the moment when this hub has it, if another runner reported it last. That runner
	// may have ended ten seconds before the Cluster could be taken, and Ready must not be True for longer than 25 s after that.
	keepsTaken = 10 * time.Second
	// staysNew is how long a Cluster without a status stays without one, in the same way.
	staysNew = 10 * time.Second
)

// begin notes the Clusters without a status for which it is worth to wait. See noteRole for the others.
func (t *firstTurns) begin(all []hubv1.Cluster, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range all {
		if isNew(all[i].Status) {
			t.await(all[i].Name, now.Add(staysNew))
		}
	}
}

// await notes a Cluster for which it is worth to wait. The caller holds the lock.
func (t *firstTurns) await(name string, until time.Time) {
	if t.waiting == nil {
		t.waiting = map[string]time.Time{}
	}
	t.waiting[name] = until
}

// noteRole notes what this hub does with a Cluster, as the runner with this name and epoch if it runs it. A Cluster that it runs
// from now on, and that was Ready before, is one whose turn comes: another hub ran it, or this hub before its restart.
func (t *firstTurns) noteRole(cluster *hubv1.Cluster, role Role, runner hubv1.RunnerStatus, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.roles[cluster.Name]
	if known && before == role {
		return
	}
	if t.roles == nil {
		t.roles = map[string]Role{}
	}
	t.roles[cluster.Name] = role
	if role == RoleRunner && wasReady(cluster) {
		t.await(cluster.Name, now.Add(keepsAs(cluster.Status.Runner, runner)))
	}
}

// keepsAs returns how long a Cluster that was Ready keeps its status, given the runner that reported it and the one that it has.
func keepsAs(before, now hubv1.RunnerStatus) time.Duration {
	if before.Name != "" && (before.Name != now.Name || before.Epoch != now.Epoch) {
		return keepsTaken
	}
	return keepsReady
}

// forget forgets a Cluster that is gone.
func (t *firstTurns) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.roles, name)
	delete(t.waiting, name)
}

// wasReady reports whether the last report of a Cluster is that it is Ready as its spec is now.
func wasReady(cluster *hubv1.Cluster) bool {
	return cluster.Status.ObservedGeneration == cluster.Generation &&
		meta.IsStatusConditionTrue(cluster.Status.Conditions, hubv1.ConditionReady)
}

// isNew reports whether no hub has reported a status yet. The CRD has a default for it.
func isNew(status hubv1.ClusterStatus) bool { return status.ObservedGeneration <= 0 }

// wait returns how long to wait before a status is reported, or zero to report it now: its remote has had its turn, or the user has
// changed the Cluster.
func (t *firstTurns) wait(cluster *hubv1.Cluster, status hubv1.ClusterStatus, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, ok := t.waiting[cluster.Name]
	if !ok {
		return 0
	}
	if isTransient(status) && now.Before(until) && (isNew(cluster.Status) || wasReady(cluster)) {
		return until.Sub(now)
	}
	delete(t.waiting, cluster.Name)
	return 0
}

// isTransient reports whether a status says that it is not known yet whether the Cluster is Ready.
func isTransient(status hubv1.ClusterStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, hubv1.ConditionReady)
	return ready.Status == metav1.ConditionUnknown && ready.Reason != hubv1.ReasonPaused
}
