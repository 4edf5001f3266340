// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"maps"
	"slices"
	"sync"
)

// ClusterIndex knows which Clusters have a value, such as the Secret that they name or their identity, so that an event does not
// list all Clusters. It may lag behind the objects: a caller reads the Clusters that it returns. An index of the cache would do the
// same, but has to be declared before the manager starts, and a manager that is stopped before its cache has the kind of an index
// never ends (controller-runtime#3440).
//
// The zero ClusterIndex is ready to be used, also by several goroutines.
type ClusterIndex struct {
	mu       sync.Mutex // protects the maps; held for map operations only
	values   map[string]string
	clusters map[string]map[string]struct{}
}

// Set records the value of a Cluster. An empty name means that the Cluster has gone.
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

// Of returns the names of the Clusters that have a value, sorted.
func (u *ClusterIndex) Of(value string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.clusters[value]))
}
