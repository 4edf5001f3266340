// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// hubCache is the hub's cache, with one difference: it stops waiting when the term ends. A manager
// that is stopped before its caches are synced otherwise spins forever
// (controller-runtime#3440), as when a module has declared an index and the hub's API server is
// away.
type hubCache struct {
	cache.Cache
	life context.Context //nolint:containedctx // The end of the term, for a method that gets another context.
}

// WaitForCacheSync waits until the cache is filled, and reports whether it is. It returns true, too, when
// the term has ended, so that the manager continues to stop.
func (c *hubCache) WaitForCacheSync(ctx context.Context) bool {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	return c.Cache.WaitForCacheSync(waiting) || c.life.Err() != nil
}
