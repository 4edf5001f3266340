// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hubCache stops waiting with the hub: a manager stopped before its caches are synced spins forever (controller-runtime#3440). It
// looks sooner than controller-runtime, which does every 100 ms: a start has two or three such waits one after the other.
type hubCache struct {
	cache.Cache
	life context.Context //nolint:containedctx // The end of the hub, for a method that gets another context.
}

// Between two looks of a wait. The longest is that of controller-runtime.
const shortest, longest = 2 * time.Millisecond, 100 * time.Millisecond

// await repeats a wait until it is done, or ctx has ended.
func await(ctx context.Context, isDone func(context.Context) bool) bool {
	for wait := shortest; ; wait = min(2*wait, longest) {
		waiting, cancel := context.WithTimeout(ctx, wait)
		done := isDone(waiting)
		cancel()
		if done || ctx.Err() != nil {
			return done
		}
	}
}

// WaitForCacheSync returns true at the end of the hub, so that the manager continues to stop.
func (c *hubCache) WaitForCacheSync(ctx context.Context) bool {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	return await(waiting, c.Cache.WaitForCacheSync) || c.life.Err() != nil
}

// GetInformer is that of controller-runtime. A timeout before a look is over is the API server's, which is asked for the kind first.
func (c *hubCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (inner cache.Informer, err error) {
	await(ctx, func(ctx context.Context) bool {
		inner, err = c.Cache.GetInformer(ctx, obj, opts...)
		return !apierrors.IsTimeout(err) || ctx.Err() == nil
	})
	if err != nil {
		return nil, err
	}
	return &hubInformer{inner}, nil
}

type hubInformer struct{ cache.Informer }

// AddEventHandlerWithOptions waits some milliseconds for the initial objects, so that the first look of a controller finds them.
func (i *hubInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	handle, err := i.Informer.AddEventHandlerWithOptions(h, o)
	if err == nil && i.HasSynced() {
		select {
		case <-handle.HasSyncedChecker().Done():
		case <-time.After(longest):
		}
	}
	return handle, err
}
