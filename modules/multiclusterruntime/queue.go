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

// NewQueue returns watch.NewQueue's fair queue for the options of a controller of multicluster-runtime: it hands out
// requests of the remotes in turn, so that a remote with a hundred thousand events delays the requests of another
// remote by one turn. multicluster-runtime's own queue has one line for all remotes. ControllerOptions sets NewQueue.
//
// weight returns how many requests a remote may have in one turn; nil means one. It is called with a lock held, so it
// must return at once and must not use the queue.
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

// queue is a queue of watch.Requests, each of which represents a request of multicluster-runtime.
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

// AddWithOpts adds requests.
func (q queue) AddWithOpts(o priorityqueue.AddOpts, requests ...mcreconcile.Request) {
	for _, r := range requests {
		q.inner.AddWithOpts(o, inward(r))
	}
}

// GetWithPriority returns the request whose turn it is. It blocks until there is one, or until the queue
// is shut down.
func (q queue) GetWithPriority() (r mcreconcile.Request, priority int, shutdown bool) {
	one, priority, shutdown := q.inner.GetWithPriority()
	return outward(one), priority, shutdown
}

// Get is GetWithPriority without the priority.
func (q queue) Get() (r mcreconcile.Request, shutdown bool) {
	one, shutdown := q.inner.Get()
	return outward(one), shutdown
}

// Add adds a request.
func (q queue) Add(r mcreconcile.Request) { q.inner.Add(inward(r)) }

// AddAfter adds a request after a time.
func (q queue) AddAfter(r mcreconcile.Request, after time.Duration) {
	q.inner.AddAfter(inward(r), after)
}

// AddRateLimited adds a request after the delay of the rate limiter.
func (q queue) AddRateLimited(r mcreconcile.Request) { q.inner.AddRateLimited(inward(r)) }

// Forget makes the rate limiter forget the request's failures.
func (q queue) Forget(r mcreconcile.Request) { q.inner.Forget(inward(r)) }

// NumRequeues returns how often the request has failed.
func (q queue) NumRequeues(r mcreconcile.Request) int { return q.inner.NumRequeues(inward(r)) }

// Done reports that the work on a request has ended.
func (q queue) Done(r mcreconcile.Request) { q.inner.Done(inward(r)) }

// Len returns how many requests can be handed out now.
func (q queue) Len() int { return q.inner.Len() }

// ShutDown stops the queue: it accepts and hands out no more requests.
func (q queue) ShutDown() { q.inner.ShutDown() }

// ShutDownWithDrain is ShutDown, and waits until no work is under way.
func (q queue) ShutDownWithDrain() { q.inner.ShutDownWithDrain() }

// ShuttingDown reports whether ShutDown was called.
func (q queue) ShuttingDown() bool { return q.inner.ShuttingDown() }

// limiter is a controller's rate limiter for watch.Requests.
type limiter struct {
	inner workqueue.TypedRateLimiter[mcreconcile.Request]
}

// When returns how long a request has to wait.
func (l limiter) When(r watch.Request) time.Duration { return l.inner.When(outward(r)) }

// Forget forgets the failures of a request.
func (l limiter) Forget(r watch.Request) { l.inner.Forget(outward(r)) }

// NumRequeues returns how often a request has failed.
func (l limiter) NumRequeues(r watch.Request) int { return l.inner.NumRequeues(outward(r)) }
