// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// clusterRunnable is started by the manager with its own cache, before everything else.
type clusterRunnable struct {
	runnable
	cache cache.Cache
}

func (c *clusterRunnable) Start(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }

func (c *clusterRunnable) NeedLeaderElection() bool { return false }

func (c *clusterRunnable) GetCache() cache.Cache {
	return &headStart{Cache: c.cache, end: c.guard.App.Context}
}

// headStartFor is how long other runnables wait for the cache of a cluster that a module has added.
const headStartFor = 5 * time.Second

// headStart limits the manager's wait: a cluster that does not respond must not keep other modules from starting.
type headStart struct {
	cache.Cache
	end context.Context //nolint:containedctx // The end of the App, for a method that gets another context.
}

func (c *headStart) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, headStartFor)
	defer cancel()
	defer context.AfterFunc(c.end, cancel)()
	_ = c.Cache.WaitForCacheSync(ctx)
	return true
}
