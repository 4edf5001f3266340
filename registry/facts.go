// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry/internal/actor"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// Facts are what the hub knows of a Cluster now: a module must read them when it uses them. The zero Facts have none.
type Facts struct{ inner *actor.Facts }

// Labels returns the labels of the Cluster, which must not be changed.
func (f Facts) Labels() map[string]string {
	if f.inner == nil {
		return nil
	}
	return f.inner.Labels()
}

// Changed returns a source for ControllerBuilder.WatchesRawSource: requests returns what to reconcile, and may read from caches.
// Several changes may become one. A panic, or a call longer than a reconcile may take, fails the module.
func Changed[request comparable](f Facts, requests func(ctx context.Context) []request) source.TypedSource[request] {
	return source.TypedFunc[request](func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
		if f.inner == nil {
			return nil
		}
		changed, end := f.inner.Follow()
		go func() {
			defer end()
			for {
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
				add := func() {
					for _, one := range requests(ctx) {
						queue.Add(one)
					}
				}
				if g := contain.GuardOf(ctx); g != nil {
					g.CallBounded("source of changed facts", add)
				} else {
					add()
				}
			}
		}()
		return nil
	})
}
