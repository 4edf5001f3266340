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

// cacheRunnable is a cache of a module. controller-runtime starts a cache as late as the runnables that need leader
// election, because a cache does not declare that it needs none.
type cacheRunnable struct{ runnable }

var _ manager.LeaderElectionRunnable = (*cacheRunnable)(nil)

// Start runs the cache until the controllers of the module end. A cache that needs leader election waits for the gate.
func (c *cacheRunnable) Start(ctx context.Context) error {
	if c.NeedLeaderElection() {
		return c.runnable.Start(ctx)
	}
	return c.guard.App.Gate.runEarly(ctx, func(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) })
}

// NeedLeaderElection returns false, unless the cache says otherwise.
func (c *cacheRunnable) NeedLeaderElection() bool {
	if r, ok := c.Runnable.(manager.LeaderElectionRunnable); ok {
		return r.NeedLeaderElection()
	}
	return false
}

// clusterRunnable is a cluster.Cluster of a module. The manager starts it together with its own cache, before
// everything else.
type clusterRunnable struct {
	runnable
	cache cache.Cache
}

// Start runs the cluster until the manager ends.
func (c *clusterRunnable) Start(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }

// NeedLeaderElection returns false, as the manager assumes.
func (c *clusterRunnable) NeedLeaderElection() bool { return false }

// GetCache returns the cache for which the manager waits before it starts other runnables.
func (c *clusterRunnable) GetCache() cache.Cache {
	return &headStart{Cache: c.cache, end: c.guard.App.Context}
}

// headStartFor is how long other runnables wait for the cache of a cluster that a module has added.
const headStartFor = 5 * time.Second

// headStart is a cache for which the manager does not wait forever: a cluster that does not respond must not keep the
// other modules of an app from starting.
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
