// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"sync"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// written has the Clusters as the last write of the hub has left them, until the cache has them, too. Otherwise each step of a
// reconcile would wait for the watch to report the one before, and a reconcile for another reason would repeat a write, which
// could only conflict. An API server that is short of time ends watches that cannot keep up, so that may take seconds.
type written struct {
	mu       sync.Mutex // protects clusters; held for map operations only
	clusters map[string]*hubv1.Cluster
}

// note records the response to a write. The Cluster must not be changed afterwards.
func (w *written) note(cluster *hubv1.Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clusters == nil {
		w.clusters = map[string]*hubv1.Cluster{}
	}
	w.clusters[cluster.Name] = cluster
}

// noteStatus records the response to an apply of the status of a Cluster. A response that cannot be understood is not recorded.
func (w *written) noteStatus(cluster *hubv1.Cluster, response *hubac.ClusterApplyConfiguration) {
	after := cluster.DeepCopy()
	text, err := json.Marshal(response.Status)
	if err != nil || response.ResourceVersion == nil {
		return
	}
	after.Status = hubv1.ClusterStatus{}
	if json.Unmarshal(text, &after.Status) != nil {
		return
	}
	after.ResourceVersion = *response.ResourceVersion
	w.note(after)
}

// latest returns the later one of a Cluster from the cache and the one that was written last.
func (w *written) latest(cached *hubv1.Cluster) *hubv1.Cluster {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.clusters[cached.Name]
	if !ok {
		return cached
	}
	if isOlder(cached.ResourceVersion, last.ResourceVersion) {
		return last.DeepCopy()
	}
	delete(w.clusters, cached.Name)
	return cached
}

// forget forgets a Cluster that is gone.
func (w *written) forget(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.clusters, cluster)
}
