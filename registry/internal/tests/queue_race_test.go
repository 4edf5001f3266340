// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
)

// cell is what the workers know of one item.
type cell struct {
	wanted, seen atomic.Int64 // how often the item was added, and the value of that at the last Get
	inWork       atomic.Bool
}

// With many goroutines that add and work, an item is in the work of one of them only, and an item that is added is worked
// on after that.
func TestQueue_Concurrent(t *testing.T) {
	t.Parallel()
	const items, adders, adds, workers = 20, 8, 500, 8
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, time.Millisecond)
	q := contain.NewQueue("test", limiter, nil)
	var cells [items]cell
	var left atomic.Int64
	left.Store(items)
	finished := make(chan struct{})
	var working, adding sync.WaitGroup
	for range workers {
		working.Go(func() {
			for key, shutdown := q.Get(); !shutdown; key, shutdown = q.Get() {
				c := &cells[key]
				if c.inWork.Swap(true) {
					t.Errorf("item %d is in work twice", key)
				}
				wanted := c.wanted.Load()
				if before := c.seen.Swap(wanted); wanted == adders*adds && before < wanted && left.Add(-1) == 0 {
					close(finished)
				}
				c.inWork.Store(false)
				q.Done(key)
			}
		})
	}
	for range adders {
		adding.Go(func() {
			for range adds {
				for key := range items {
					cells[key].wanted.Add(1)
					priority := rand.IntN(3)
					q.AddWithOpts(priorityqueue.AddOpts{
						Priority: &priority, After: time.Duration(rand.IntN(50)) * time.Microsecond,
						RateLimited: rand.IntN(10) == 0,
					}, key)
				}
			}
		})
	}
	adding.Wait()
	<-finished
	q.ShutDown()
	working.Wait()
}

// A shutdown ends all workers at any time, and no call of the queue blocks after it.
func TestQueue_ConcurrentShutDown(t *testing.T) {
	t.Parallel()
	for range 100 {
		q := contain.NewQueue("test", newLimiter(), nil)
		var running sync.WaitGroup
		for range 4 {
			running.Go(func() {
				for key, shutdown := q.Get(); !shutdown; key, shutdown = q.Get() {
					q.AddAfter(key, time.Microsecond)
					q.Done(key)
				}
			})
			running.Go(func() {
				for !q.ShuttingDown() {
					q.AddWithOpts(priorityqueue.AddOpts{RateLimited: rand.IntN(2) == 0}, "a", "b")
					q.Forget("a")
				}
			})
		}
		for range 2 {
			running.Go(q.ShutDown)
		}
		running.Wait()
		testkit.Equal(t, q.Len(), 0, "Len after ShutDown")
	}
}
