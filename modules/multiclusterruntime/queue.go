// SPDX-License-Identifier: Apache-2.0

package multiclusterruntime

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/watch"
)

// NewQueue returns watch.NewQueue's fair queue for a controller of multicluster-runtime, whose own has one line for
// all remotes. A remote with a hundred thousand events delays another by one turn. ControllerOptions sets it.
//
// weight returns the requests of a remote in one turn; nil means one. It is called with a lock held: it must return
// at once and must not use the queue.
func NewQueue(weight func(registry.ClusterName) int) func(
	controllerName string, limiter workqueue.TypedRateLimiter[mcreconcile.Request],
) workqueue.TypedRateLimitingInterface[mcreconcile.Request] {
	newInner := watch.NewQueue(weight)
	return func(
		name string, l workqueue.TypedRateLimiter[mcreconcile.Request],
	) workqueue.TypedRateLimitingInterface[mcreconcile.Request] {
		fair, _ := newInner(name, limiter{l}).(priorityqueue.PriorityQueue[watch.Request]) // it is always one
		return queue{fair}
	}
}

type queue struct {
	inner priorityqueue.PriorityQueue[watch.Request]
}

var _ priorityqueue.PriorityQueue[mcreconcile.Request] = queue{}

func inward(r mcreconcile.Request) watch.Request {
	return watch.Request{Cluster: registry.ClusterName(r.ClusterName), NamespacedName: r.NamespacedName}
}

func outward(r watch.Request) mcreconcile.Request {
	return mcreconcile.Request{
		ClusterName: multicluster.ClusterName(r.Cluster),
		Request:     reconcile.Request{NamespacedName: r.NamespacedName},
	}
}

func (q queue) AddWithOpts(o priorityqueue.AddOpts, requests ...mcreconcile.Request) {
	for _, r := range requests {
		q.inner.AddWithOpts(o, inward(r))
	}
}

// GetWithPriority blocks until there is a request, or the queue is shut down.
func (q queue) GetWithPriority() (r mcreconcile.Request, priority int, shutdown bool) {
	one, priority, shutdown := q.inner.GetWithPriority()
	return outward(one), priority, shutdown
}

func (q queue) Get() (r mcreconcile.Request, shutdown bool) {
	one, shutdown := q.inner.Get()
	return outward(one), shutdown
}

func (q queue) Add(r mcreconcile.Request) { q.inner.Add(inward(r)) }

func (q queue) AddAfter(r mcreconcile.Request, after time.Duration) {
	q.inner.AddAfter(inward(r), after)
}

func (q queue) AddRateLimited(r mcreconcile.Request) { q.inner.AddRateLimited(inward(r)) }

func (q queue) Forget(r mcreconcile.Request) { q.inner.Forget(inward(r)) }

func (q queue) NumRequeues(r mcreconcile.Request) int { return q.inner.NumRequeues(inward(r)) }

func (q queue) Done(r mcreconcile.Request) { q.inner.Done(inward(r)) }

func (q queue) Len() int { return q.inner.Len() }

func (q queue) ShutDown() { q.inner.ShutDown() }

func (q queue) ShutDownWithDrain() { q.inner.ShutDownWithDrain() }

func (q queue) ShuttingDown() bool { return q.inner.ShuttingDown() }

type limiter struct {
	inner workqueue.TypedRateLimiter[mcreconcile.Request]
}

func (l limiter) When(r watch.Request) time.Duration { return l.inner.When(outward(r)) }

func (l limiter) Forget(r watch.Request) { l.inner.Forget(outward(r)) }

func (l limiter) NumRequeues(r watch.Request) int { return l.inner.NumRequeues(outward(r)) }
