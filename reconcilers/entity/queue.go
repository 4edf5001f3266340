// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

// queue is a source that remembers the queue of its controller, so that others can add requests. A request before the controller
// starts is dropped: the source starts with all keys that have a value or a marker.
type queue struct {
	bucket *bucket.Bucket
	owned  []*entities // secondaries in other buckets

	mu    sync.Mutex // protects inner
	inner workqueue.TypedRateLimitingInterface[Request]
}

// Start requests all entities, and each one that changes, until ctx ends. It does not wait for the bucket: a module runs while
// NATS is away.
func (q *queue) Start(ctx context.Context, inner workqueue.TypedRateLimitingInterface[Request]) error {
	q.mu.Lock()
	q.inner = inner
	q.mu.Unlock()
	unsubscribe := q.bucket.Subscribe(func(c bucket.Change) { q.add(c.Key, operationOf(c), 0) })
	context.AfterFunc(ctx, unsubscribe)
	for _, x := range q.owned {
		unsubscribe := x.bucket.Subscribe(func(c bucket.Change) {
			for _, primary := range x.changed(c.Key) {
				q.add(primary, OperationSecondary, 0)
			}
		})
		context.AfterFunc(ctx, unsubscribe)
	}
	return nil
}

// add adds a request. If one is waiting already, the earlier time and the higher priority count.
func (q *queue) add(key string, op Operation, after time.Duration) {
	q.request(Request{Key: key}, op, after)
}

func (q *queue) request(r Request, op Operation, after time.Duration) {
	q.mu.Lock()
	inner := q.inner
	q.mu.Unlock()
	if inner != nil {
		enqueue(inner, r, op, after)
	}
}

// enqueue adds a request to the queue of a controller.
func enqueue(q workqueue.TypedRateLimitingInterface[Request], r Request, op Operation, after time.Duration) {
	if p, ok := q.(priorityqueue.PriorityQueue[Request]); ok {
		p.AddWithOpts(priorityqueue.AddOpts{After: after, Priority: new(op.priority())}, r)
		return
	}
	q.AddAfter(r, after)
}
