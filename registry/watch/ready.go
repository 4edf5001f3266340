// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
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

// Requests are those that no event makes, for a controller of objects without a namespace. Until the controller begins they are dropped,
// since it begins with all objects. The zero value is ready for use.
type Requests struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// Source is for WatchesRawSource.
func (r *Requests) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.queue.Store(&queue)
		return nil
	})
}

// Queue returns that of the controller, or nil until it begins.
func (r *Requests) Queue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return ptr.Deref(r.queue.Load(), nil)
}

// Add requests the object with a name after a while, which may be zero.
func (r *Requests) Add(name string, after time.Duration) {
	if queue := r.Queue(); queue != nil {
		queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, after)
	}
}
