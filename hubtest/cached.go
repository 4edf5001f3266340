// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// WaitCached waits until the hub's cache has an object in the version that it is in here, or in a later
// one: what reconcilers on the hub decide then, they decide knowing it. The object is one that was just
// created, read or written. A kind that the hub does not hold in memory yet, it holds from then on.
func (h *Hub) WaitCached(object client.Object) {
	h.tb.Helper()
	h.wait("the cached "+describe(h.site.scheme, object), func(ctx context.Context) error {
		now, err := h.site.process.running()
		if err != nil {
			return err
		}
		return isSeen(ctx, now.Cache, object)
	})
}

// WaitCached is Hub.WaitCached for the cache of the remote's app.
func (r *Remote) WaitCached(object client.Object) {
	r.tb.Helper()
	r.wait("the cached "+describe(r.site.scheme, object), func(ctx context.Context) error {
		return r.withApp(ctx, func(ctx context.Context, c cluster.Cluster) error {
			return isSeen(ctx, c.GetCache(), object)
		})
	})
}
