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
	mu      sync.Mutex // protects waiting; held for map operations only
	waiting map[string]time.Time
}

const (
	// keepsReady is how long a Cluster that was Ready keeps its status, from the start of the hub, while it waits for its turn.
	keepsReady = 30 * time.Second
	// staysNew is how long a Cluster without a status stays without one, in the same way.
	staysNew = 10 * time.Second
)

// begin notes the Clusters for which it is worth to wait.
func (t *firstTurns) begin(all []hubv1.Cluster, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = map[string]time.Time{}
	for i := range all {
		switch {
		case wasReady(&all[i]):
			t.waiting[all[i].Name] = now.Add(keepsReady)
		case isNew(all[i].Status):
			t.waiting[all[i].Name] = now.Add(staysNew)
		}
	}
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
