// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

type withCache interface{ GetCache() cache.Cache }

// clusterRunnable is started by the manager with its own cache, before everything else.
type clusterRunnable struct {
	runnable
	withCache
}

func (c *clusterRunnable) Start(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }

func (c *clusterRunnable) NeedLeaderElection() bool { return false }
