// SPDX-License-Identifier: Apache-2.0

package side

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// Leased is a remote of a registry, for a hub part. Each reconcile borrows its client, and waits while it is not
// Ready.
func Leased(r *registry.Registry, name registry.ClusterName) Side {
	return Side{&leasedSide{registry: r, name: name}}
}

type leasedSide struct {
	registry *registry.Registry
	name     registry.ClusterName
}

func (s *leasedSide) lend(ctx context.Context, f func(context.Context, Access) error) error {
	return s.registry.WithCluster(ctx, s.name, func(ctx context.Context, c cluster.Cluster) error {
		return f(ctx, accessTo(c))
	})
}

func (s *leasedSide) open(w Want) (View, error) { return &leasedView{side: s, object: w.Object}, nil }

type leasedView struct {
	side   *leasedSide
	object client.Object
}

func (v *leasedView) Reader(a Access) client.Reader { return a.Client }

func (v *leasedView) Requests(observe Notify) source.TypedSource[reconcile.Request] {
	return unnamed{watch.Remotes(v.side.registry, v.object, watch.Options[client.Object]{
		Select: func(s state.Status) bool { return s.Name == v.side.name },
		Map: func(ctx context.Context, name state.ClusterName, obj client.Object) []watch.Request {
			var all []watch.Request
			for _, key := range observe(ctx, obj, false) {
				all = append(all, watch.Request{Cluster: name, NamespacedName: key})
			}
			return all
		},
	})}
}

// Declare adds nothing: a remote whose app was replaced reports no deletions.
func (v *leasedView) Declare(ctx context.Context, _ types.NamespacedName) (context.Context, error) {
	return ctx, nil
}

type unnamed struct {
	source.TypedSource[watch.Request]
}

func (u unnamed) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return u.TypedSource.Start(ctx, namedQueue{queue})
}

// namedQueue takes the requests of a source with a cluster. Sources only add.
type namedQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func plain(r watch.Request) reconcile.Request {
	return reconcile.Request{NamespacedName: r.NamespacedName}
}

func (q namedQueue) Add(r watch.Request) { q.TypedRateLimitingInterface.Add(plain(r)) }

func (q namedQueue) AddAfter(r watch.Request, d time.Duration) {
	q.TypedRateLimitingInterface.AddAfter(plain(r), d)
}

func (q namedQueue) AddRateLimited(r watch.Request) {
	q.TypedRateLimitingInterface.AddRateLimited(plain(r))
}

func (q namedQueue) Forget(r watch.Request) { q.TypedRateLimitingInterface.Forget(plain(r)) }

func (q namedQueue) NumRequeues(r watch.Request) int {
	return q.TypedRateLimitingInterface.NumRequeues(plain(r))
}

func (q namedQueue) Get() (watch.Request, bool) {
	r, shutdown := q.TypedRateLimitingInterface.Get()
	return watch.Request{NamespacedName: r.NamespacedName}, shutdown
}

func (q namedQueue) Done(r watch.Request) { q.TypedRateLimitingInterface.Done(plain(r)) }
