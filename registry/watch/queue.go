// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/state"
)

// fairQueue is a queue of NewQueue, which may be watched (package liveness).
type fairQueue interface {
	priorityqueue.PriorityQueue[Request]
	AddFrom(lane string, priority *int, requests ...Request)
}

// NewQueue returns a queue for controller.TypedOptions.NewQueue that takes from remotes in turn: within a remote the
// highest priority first, then the oldest. So a hundred thousand requests of one delay another by one turn. The remote
// whose event made a request counts, also for an object of the hub (OwnsRemote); the hub's own objects count as one
// more.
//
// weight returns how many requests a remote may have in a turn; nil means one. It is called with a lock held, so it
// must return at once and must not use the queue.
func NewQueue(
	weight func(state.ClusterName) int,
) func(controllerName string, limiter workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request] {
	if weight == nil {
		weight = func(state.ClusterName) int { return 1 }
	}
	return func(_ string, limiter workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request] {
		return contain.NewFairQueue(limiter,
			func(r Request) string { return string(r.Cluster) },
			func(lane string) int { return weight(state.ClusterName(lane)) })
	}
}
