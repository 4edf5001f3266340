// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Rounds is registry.Rounds.
type Rounds struct{ Requests, Left, Working int }

// rounds has the queues of controllers by the name of their App. Nil counts nothing.
type rounds struct {
	mu    sync.Mutex
	lists map[string][]counted
}

type counted interface {
	rounds() Rounds
	repeat()
	over() bool
}

// NewCountedQueues returns Queues that count rounds.
func NewCountedQueues() *Queues {
	q := NewQueues()
	q.rounds = &rounds{lists: map[string][]counted{}}
	return q
}

// of returns the queues that have not ended.
func (r *rounds) of(app string, more ...counted) []counted {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var live []counted
	for _, one := range append(r.lists[app], more...) {
		if !one.over() {
			live = append(live, one)
		}
	}
	r.lists[app] = live
	return live
}

// Rounds returns the sum of the controllers of an App.
func (q *Queues) Rounds(app string) (sum Rounds) {
	for _, one := range q.rounds.of(app) {
		n := one.rounds()
		sum.Requests, sum.Left, sum.Working = sum.Requests+n.Requests, sum.Left+n.Left, sum.Working+n.Working
	}
	return sum
}

// Repeat has the controllers of an App reconcile everything again.
func (q *Queues) Repeat(app string) {
	for _, one := range q.rounds.of(app) {
		one.repeat()
	}
}

func countRounds[request comparable](inner liveness.NewQueue[request], app string, r *rounds) liveness.NewQueue[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		c := &countedQueue[request]{TypedRateLimitingInterface: inner(name, limiter), due: map[request]time.Time{}, done: map[request]int{}, target: 1}
		r.of(app, c)
		if p, prioritized := c.TypedRateLimitingInterface.(priorityqueue.PriorityQueue[request]); prioritized {
			return &countedPriorities[request]{countedQueue: c, inner: p}
		}
		return c
	}
}

// countedQueue counts how often each request was done.
type countedQueue[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]

	mu      sync.Mutex            // protects the fields; not held for calls of the queue
	due     map[request]time.Time // when a request that was added may begin
	done    map[request]int
	target  int
	working int
}

// soon is the longest wait of a request that is to come. A longer one is a timer.
const soon = 10 * time.Second

func (q *countedQueue[request]) rounds() Rounds {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := Rounds{Requests: len(q.due), Working: q.working}
	limit := time.Now().Add(soon)
	for key, at := range q.due {
		if q.done[key] < q.target && at.Before(limit) {
			r.Left++
		}
	}
	return r
}

func (q *countedQueue[request]) repeat() {
	q.mu.Lock()
	q.target = 2
	var again []request
	for key, n := range q.done {
		if q.done[key] = min(n, 1); n > 0 {
			again = append(again, key)
			q.due[key] = time.Now()
		}
	}
	q.mu.Unlock()
	for _, key := range again {
		q.TypedRateLimitingInterface.Add(key)
	}
}

func (q *countedQueue[request]) over() bool { return q.ShuttingDown() }

func (q *countedQueue[request]) added(after time.Duration, keys ...request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(after)
	for _, key := range keys {
		if before, known := q.due[key]; !known || q.done[key] < q.target && at.Before(before) {
			q.due[key] = at
		}
	}
}

func (q *countedQueue[request]) took(shutdown bool) {
	if !shutdown {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.working++
	}
}

func (q *countedQueue[request]) Add(key request) {
	q.added(0, key)
	q.TypedRateLimitingInterface.Add(key)
}

func (q *countedQueue[request]) AddAfter(key request, after time.Duration) {
	q.added(after, key)
	q.TypedRateLimitingInterface.AddAfter(key, after)
}

func (q *countedQueue[request]) AddRateLimited(key request) {
	q.added(0, key)
	q.TypedRateLimitingInterface.AddRateLimited(key)
}

func (q *countedQueue[request]) Get() (key request, shutdown bool) {
	key, shutdown = q.TypedRateLimitingInterface.Get()
	q.took(shutdown)
	return key, shutdown
}

func (q *countedQueue[request]) Done(key request) {
	q.mu.Lock()
	q.working--
	q.done[key]++
	again := q.done[key] < q.target
	if again {
		q.due[key] = time.Now()
	}
	q.mu.Unlock()
	q.TypedRateLimitingInterface.Done(key)
	if again {
		q.TypedRateLimitingInterface.Add(key)
	}
}

// countedPriorities is for a queue whose controller uses its priorities.
type countedPriorities[request comparable] struct {
	*countedQueue[request]
	inner priorityqueue.PriorityQueue[request]
}

func (q *countedPriorities[request]) AddWithOpts(o priorityqueue.AddOpts, keys ...request) {
	q.added(o.After, keys...)
	q.inner.AddWithOpts(o, keys...)
}

func (q *countedPriorities[request]) GetWithPriority() (key request, priority int, shutdown bool) {
	key, priority, shutdown = q.inner.GetWithPriority()
	q.took(shutdown)
	return key, priority, shutdown
}
