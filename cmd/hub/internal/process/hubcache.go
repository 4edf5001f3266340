// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// hubCache stops waiting with the hub: a manager stopped before its caches are synced spins forever (controller-runtime#3440).
type hubCache struct {
	cache.Cache
	life context.Context //nolint:containedctx // The end of the hub, for a method that gets another context.
}

// WaitForCacheSync returns true at the end of the hub, so that the manager continues to stop.
func (c *hubCache) WaitForCacheSync(ctx context.Context) bool {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	return c.Cache.WaitForCacheSync(waiting) || c.life.Err() != nil
}
