// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// A module may add caches and clusters of its own to its manager. Both start with the manager: controllers of the
// module can have sources in them, and an app takes over only when the sources of all its controllers have delivered.

// containedCache is a contained cache. controller-runtime starts a cache as late as what needs leader election,
// because a cache does not say that it needs none.
type containedCache struct{ contained }

var _ manager.LeaderElectionRunnable = (*containedCache)(nil)

// Start runs the cache until the controllers of the module end. What needs leader election waits as usual.
func (c *containedCache) Start(ctx context.Context) error {
	if c.NeedLeaderElection() {
		return c.contained.Start(ctx)
	}
	return c.guard.App.Gate.runEarly(ctx, func(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) })
}

// NeedLeaderElection returns false, unless the cache says otherwise.
func (c *containedCache) NeedLeaderElection() bool {
	if r, ok := c.Runnable.(manager.LeaderElectionRunnable); ok {
		return r.NeedLeaderElection()
	}
	return false
}

// containedCluster is a contained cluster.Cluster, which the manager starts together with its own cache, before
// everything else.
type containedCluster struct {
	contained
	cache cache.Cache
}

// Start runs the cluster until the manager ends.
func (c *containedCluster) Start(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }

// NeedLeaderElection returns false, as the manager assumes.
func (c *containedCluster) NeedLeaderElection() bool { return false }

// GetCache returns the cache for which the manager waits before it starts other runnables.
func (c *containedCluster) GetCache() cache.Cache {
	return &headStart{Cache: c.cache, end: c.guard.App.Context}
}

// headStartFor is how long other runnables wait for the cache of a cluster that a module has added.
const headStartFor = 5 * time.Second

// headStart is a cache for which the manager does not wait forever: a cluster that does not respond must not keep the
// other modules of an app from starting, and a manager that is canceled while it waits continues to wait
// (controller-runtime#3440).
type headStart struct {
	cache.Cache
	end context.Context //nolint:containedctx // The end of the App, for a method that gets another context.
}

// WaitForCacheSync waits until the cache has synced, for a while, or until the App ends. It returns true.
func (c *headStart) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, headStartFor)
	defer cancel()
	defer context.AfterFunc(c.end, cancel)()
	_ = c.Cache.WaitForCacheSync(ctx)
	return true
}
