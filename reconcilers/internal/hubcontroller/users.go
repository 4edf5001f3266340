// SPDX-License-Identifier: Apache-2.0

package hubcontroller

import (
	"maps"
	"slices"
	"sync"
)

// SecretUsers knows which Clusters name a Secret, so that an event of a Secret does not list all Clusters. It may lag behind the
// objects: a caller reads the Clusters that it returns. An index of the cache would do the same, but has to be declared before the
// manager starts, and a manager that is stopped before its cache has the kind of an index never ends (controller-runtime#3440).
//
// The zero SecretUsers is ready to be used, also by several goroutines.
type SecretUsers struct {
	mu       sync.Mutex // protects the maps; held for map operations only
	secrets  map[string]string
	clusters map[string]map[string]struct{}
}

// Set records the Secret that a Cluster names. An empty name means that the Cluster has gone.
func (u *SecretUsers) Set(cluster, secret string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, known := u.secrets[cluster]
	if before == secret && known {
		return
	}
	delete(u.secrets, cluster)
	delete(u.clusters[before], cluster)
	if len(u.clusters[before]) == 0 {
		delete(u.clusters, before)
	}
	if secret == "" {
		return
	}
	if u.secrets == nil {
		u.secrets, u.clusters = map[string]string{}, map[string]map[string]struct{}{}
	}
	if u.clusters[secret] == nil {
		u.clusters[secret] = map[string]struct{}{}
	}
	u.secrets[cluster], u.clusters[secret][cluster] = secret, struct{}{}
}

// Of returns the names of the Clusters that name a Secret, sorted.
func (u *SecretUsers) Of(secret string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.clusters[secret]))
}
