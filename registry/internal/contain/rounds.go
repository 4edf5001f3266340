// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Rounds is registry.Rounds.
type Rounds struct{ Left, Working int }

type counted interface {
	rounds() Rounds
	repeat()
	ShuttingDown() bool
}

// NewCountedQueues returns Queues for a rehearsal: every controller has a Queue that counts rounds, also one with a NewQueue of its
// own.
func NewCountedQueues() *Queues {
	q := NewQueues()
	q.counted = map[string][]counted{}
	return q
}

func newCountedQueue[request comparable](q *Queues, app string) liveness.NewQueue[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		one := NewQueue(name, limiter, q.metrics)
		one.done, one.target = map[request]int{}, 1
		q.mu.Lock()
		defer q.mu.Unlock()
		q.counted[app] = append(q.counted[app], one)
		return one
	}
}

func (q *Queues) live(app string) []counted {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.counted[app]), counted.ShuttingDown)
}

// Rounds returns the sum of the controllers of an App.
func (q *Queues) Rounds(app string) (sum Rounds) {
	for _, one := range q.live(app) {
		n := one.rounds()
		sum.Left, sum.Working = sum.Left+n.Left, sum.Working+n.Working
	}
	return sum
}

// Repeat has the controllers of an App reconcile everything again.
func (q *Queues) Repeat(app string) {
	for _, one := range q.live(app) {
		one.repeat()
	}
}

// soon is the longest wait of a request that is to come. A longer one is a timer.
const soon = 10 * time.Second

// rounds counts the items that were not done often enough: all of these wait, or are in work.
func (q *Queue[T]) rounds() (r Rounds) {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.in(soon)
	for key, i := range q.items {
		if i.inWork {
			r.Working++
		}
		if q.done[key] < q.target && (i.inWork || i.place != delayed || i.at < limit) {
			r.Left++
		}
	}
	return r
}

func (q *Queue[T]) repeat() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.target = 2
	for key := range q.done {
		q.done[key] = 1
		q.put(key, q.ready.laneOf(key), 0, 0)
	}
}

// countDone adds an item again that was not done often enough. It needs the lock.
func (q *Queue[T]) countDone(key T) {
	if q.done == nil {
		return
	}
	if q.done[key]++; q.done[key] < q.target {
		q.put(key, q.ready.laneOf(key), 0, 0)
	}
}
