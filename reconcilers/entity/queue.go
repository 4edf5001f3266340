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

// queue is a source that lets others add requests. One before the start is dropped: the start requests all keys with
// a value or marker.
type queue struct {
	bucket *bucket.Bucket
	owned  []*entities

	mu    sync.Mutex
	inner workqueue.TypedRateLimitingInterface[Request]
}

func (q *queue) Start(ctx context.Context, inner workqueue.TypedRateLimitingInterface[Request]) error {
	q.mu.Lock()
	q.inner = inner
	q.mu.Unlock()
	context.AfterFunc(ctx, q.bucket.Subscribe(func(c bucket.Change) { q.add(c.Key, operationOf(c), 0) }))
	for _, x := range q.owned {
		context.AfterFunc(ctx, x.bucket.Subscribe(func(c bucket.Change) {
			for _, primary := range x.changed(c.Key) {
				q.add(primary, OperationSecondary, 0)
			}
		}))
	}
	return nil
}

// add keeps the earlier time and the higher priority of a waiting request.
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

func enqueue(q workqueue.TypedRateLimitingInterface[Request], r Request, op Operation, after time.Duration) {
	if p, ok := q.(priorityqueue.PriorityQueue[Request]); ok {
		p.AddWithOpts(priorityqueue.AddOpts{After: after, Priority: new(op.priority())}, r)
		return
	}
	q.AddAfter(r, after)
}
