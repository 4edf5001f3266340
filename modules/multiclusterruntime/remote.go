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

// remote is a remote as controllers see it, in one epoch.
type remote struct {
	cluster.Cluster
	engagement *engagement
	ctx        context.Context //nolint:containedctx // The time for which it is lent.
	cache      *lateCache

	mu      sync.Mutex // protects ended
	ended   bool
	running sync.WaitGroup // the goroutines that open informers and add handlers; added to while not ended
}

func newRemote(ctx context.Context, e *engagement, c cluster.Cluster) *remote {
	r := &remote{Cluster: c, engagement: e}
	r.ctx = context.WithValue(ctx, engaging{}, r)
	r.cache = &lateCache{Cache: c.GetCache(), remote: r}
	return r
}

// engaging is the key under which the context of an Engage has its remote.
type engaging struct{}

// start runs f in a goroutine, unless the engagement has ended. f ends when r.ctx does.
func (r *remote) start(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.running.Go(f)
	}
}

// end waits until all goroutines of the remote have ended. Its context has ended.
func (r *remote) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.running.Wait()
}

// GetCache returns the cache of the remote's app.
func (r *remote) GetCache() cache.Cache { return r.cache }

// GetFieldIndexer returns the cache of the remote's app.
func (r *remote) GetFieldIndexer() client.FieldIndexer { return r.cache }

var errNotYours = errors.New("the registry runs the remote, do not start it")

// Start fails: the remote runs already.
func (r *remote) Start(context.Context) error { return errNotYours }

// lateCache is the cache of an app. Within an Engage nothing waits for the remote: informers come at once and
// find their objects later. multicluster-runtime holds locks there that all remotes have to pass, and a source
// that fails when a controller starts ends the process.
type lateCache struct {
	cache.Cache
	remote *remote
}

// isEngaging reports whether a call comes from an Engage of the remote.
func (c *lateCache) isEngaging(ctx context.Context) bool { return ctx.Value(engaging{}) == c.remote }

// GetInformer returns the informer for the object's kind.
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

// GetInformerForKind returns the informer for the kind.
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

// WaitForCacheSync waits until the cache runs. Within an Engage the cache runs, or its context has ended.
func (c *lateCache) WaitForCacheSync(ctx context.Context) bool {
	return c.isEngaging(ctx) || c.Cache.WaitForCacheSync(ctx)
}
