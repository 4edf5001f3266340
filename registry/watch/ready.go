// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// WatchesRemotes makes a request without an object for every remote that selects picks (nil for all): when it becomes
// Ready, when its app is replaced, and when selects picks a Ready one, also again. An app that was not Ready for a
// while makes no other request. It is for a controller that has work in a remote without objects.
func (b *Builder) WatchesRemotes(selects func(state.Status) bool) *Builder {
	b.sources = append(b.sources, readyRemotes(b.registry, selects))
	b.selects = append(b.selects, selects)
	return b
}

func readyRemotes(r *registry.Registry, selects func(state.Status) bool) source.TypedSource[Request] {
	return source.TypedFunc[Request](func(
		ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request],
	) error {
		asked := map[state.ClusterName]int64{} // the epoch that the last request was made in
		r.Follow(ctx, func(e registry.Event) {
			info, _ := r.Status(e.Name)
			switch {
			case info.State == "" || info.State == state.StateStopped || selects != nil && !selects(info):
				delete(asked, e.Name)
			case info.State == state.StateReady && asked[e.Name] != info.Epoch:
				asked[e.Name] = info.Epoch
				queue.Add(Request{Cluster: e.Name})
			}
		})
		return nil
	})
}

// InitialRequest returns a source with one request at the controller's start, for a controller that has work also
// without objects:
//
//	WatchesRawSource(watch.InitialRequest(ctrl.Request{}))
func InitialRequest[request comparable](first request) source.TypedSource[request] {
	return source.TypedFunc[request](func(
		_ context.Context, queue workqueue.TypedRateLimitingInterface[request],
	) error {
		queue.Add(first)
		return nil
	})
}
