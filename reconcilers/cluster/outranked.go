// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// outrankedFor is how long a hub leaves the report of a runner with a higher epoch as it is. A hub that is no longer the runner
// learns that within a few Lease durations. If it still is the runner after that, epochs have begun again at one: the installation
// was created again, perhaps in another namespace, and its Clusters were kept.
const outrankedFor = time.Minute

// outranked are the Clusters whose status names another runner, with a higher epoch than this hub has.
type outranked struct {
	mu    sync.Mutex // protects since; held for map operations only
	since map[string]time.Time
}

// wait returns for how long a hub that is the runner now leaves the report of another runner as it is; zero if it reports.
func (o *outranked) wait(cluster *hubv1.Cluster, now hubv1.RunnerStatus, at time.Time) time.Duration {
	before := cluster.Status.Runner
	isHigher := now.Name != "" && before.Name != now.Name && before.Epoch > now.Epoch
	o.mu.Lock()
	defer o.mu.Unlock()
	if !isHigher {
		delete(o.since, cluster.Name)
		return 0
	}
	if o.since == nil {
		o.since = map[string]time.Time{}
	}
	began, known := o.since[cluster.Name]
	if !known {
		began = at
		o.since[cluster.Name] = at
	}
	return max(0, outrankedFor-at.Sub(began))
}

// forget forgets a Cluster that is gone, or that another hub runs.
func (o *outranked) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.since, name)
}
