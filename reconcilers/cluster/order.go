// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// order makes a hub that starts reconcile the Clusters that it knows before it reconciles new ones. The known Clusters
// were Ready before, and of two Clusters for one remote the known Cluster has the remote.
//
// A Cluster is known if its identity is recorded. A reconcile of a Cluster posts it to the registry, which does not
// wait, so that new Clusters wait no longer than the caches took to fill.
//
// The ranks of the registry's start queue do not replace this order, and this order does not replace the ranks. The ranks
// order requests that wait for a slot: while slots are free, a new Cluster that is posted first starts first, and a
// second Cluster for the remote of a known Cluster would run there until the known Cluster is posted. This order decides
// what is posted first, and holds for seconds after the start; the ranks also order retries and suspects.
type order struct {
	mu    sync.Mutex // protects known; held for map operations only
	known map[string]struct{}
}

// begin notes which of all Clusters are known.
func (o *order) begin(all []hubv1.Cluster) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = map[string]struct{}{}
	for i := range all {
		if isKnown(&all[i]) {
			o.known[all[i].Name] = struct{}{}
		}
	}
}

// looked notes that a Cluster was looked at.
func (o *order) looked(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, name)
}

// mustWait reports whether others come before a Cluster.
func (o *order) mustWait(cluster *hubv1.Cluster) bool {
	if isKnown(cluster) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.known) > 0
}

func isKnown(cluster *hubv1.Cluster) bool { return cluster.Annotations[hubv1.AnnotationID] != "" }
