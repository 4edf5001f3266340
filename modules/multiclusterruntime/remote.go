// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// remote is one epoch as controllers see it.
type remote struct {
	cluster.Cluster
	engagement *engagement
	ctx        context.Context //nolint:containedctx // The time for which it is lent.
	cache      *lateCache

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup // goroutines that open informers and add handlers; added to while not ended
}

func newRemote(ctx context.Context, e *engagement, c cluster.Cluster) *remote {
	r := &remote{Cluster: c, engagement: e}
	r.ctx = context.WithValue(ctx, engaging{}, r)
	r.cache = &lateCache{Cache: c.GetCache(), remote: r}
	return r
}

type engaging struct{}

func (r *remote) start(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.running.Go(f)
	}
}

func (r *remote) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.running.Wait()
}

func (r *remote) GetCache() cache.Cache { return r.cache }

func (r *remote) GetFieldIndexer() client.FieldIndexer { return r.cache }

var errNotYours = errors.New("the registry runs the remote, do not start it")

// Start fails: the remote runs already.
func (r *remote) Start(context.Context) error { return errNotYours }

// lateCache is an app's cache. Within an Engage nothing waits for the remote: informers come at once and find their
// objects later. multicluster-runtime holds locks there that all remotes pass, and a source that fails at the start
// of a controller ends the process.
type lateCache struct {
	cache.Cache
	remote *remote
}

// isEngaging reports a call from an Engage of the remote.
func (c *lateCache) isEngaging(ctx context.Context) bool { return ctx.Value(engaging{}) == c.remote }

func (c *lateCache) GetInformer(
	ctx context.Context, obj client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if !c.isEngaging(ctx) {
		return c.Cache.GetInformer(ctx, obj, opts...)
	}
	return newLateInformer(c.remote, func(ctx context.Context) (cache.Informer, error) {
		return c.Cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	}), nil
}

func (c *lateCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if !c.isEngaging(ctx) {
		return c.Cache.GetInformerForKind(ctx, gvk, opts...)
	}
	return newLateInformer(c.remote, func(ctx context.Context) (cache.Informer, error) {
		return c.Cache.GetInformerForKind(ctx, gvk, cache.BlockUntilSynced(false))
	}), nil
}

// WaitForCacheSync: within an Engage the cache runs, or its context has ended.
func (c *lateCache) WaitForCacheSync(ctx context.Context) bool {
	return c.isEngaging(ctx) || c.Cache.WaitForCacheSync(ctx)
}
