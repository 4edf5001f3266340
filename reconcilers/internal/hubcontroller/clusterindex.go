// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"maps"
	"slices"
	"sync"
)

// ClusterIndex knows which Clusters have a value, so that an event lists none. It may lag: read the Clusters that it
// returns. An index of the cache must be declared before the manager starts, and never ends if that stops early
// (controller-runtime#3440). The zero value is ready, also for several goroutines.
type ClusterIndex struct {
	mu       sync.Mutex // for map operations
	values   map[string]string
	clusters map[string]map[string]struct{}
}

// Set records a Cluster's value; empty: the Cluster has gone.
func (u *ClusterIndex) Set(cluster, value string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, known := u.values[cluster]
	if before == value && known {
		return
	}
	delete(u.values, cluster)
	delete(u.clusters[before], cluster)
	if len(u.clusters[before]) == 0 {
		delete(u.clusters, before)
	}
	if value == "" {
		return
	}
	if u.values == nil {
		u.values, u.clusters = map[string]string{}, map[string]map[string]struct{}{}
	}
	if u.clusters[value] == nil {
		u.clusters[value] = map[string]struct{}{}
	}
	u.values[cluster], u.clusters[value][cluster] = value, struct{}{}
}

// Of returns sorted names.
func (u *ClusterIndex) Of(value string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.clusters[value]))
}
