// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Rounds is registry.Rounds.
type Rounds struct{ Left, Working int }

// rounds has the queues of controllers by the name of their App. Nil counts nothing.
type rounds struct {
	mu     sync.Mutex // protects queues
	queues map[string][]counted
}

type counted interface {
	rounds() Rounds
	repeat()
	ShuttingDown() bool
}

// NewCountedQueues returns Queues that count rounds, and have no priorities.
func NewCountedQueues() *Queues {
	q := NewQueues()
	q.rounds = &rounds{queues: map[string][]counted{}}
	return q
}

func (q *Queues) live(app string) (live []counted) {
	q.rounds.mu.Lock()
	defer q.rounds.mu.Unlock()
	for _, one := range q.rounds.queues[app] {
		if !one.ShuttingDown() {
			live = append(live, one)
		}
	}
	return live
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

func countRounds[request comparable](inner liveness.NewQueue[request], app string, r *rounds) liveness.NewQueue[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		c := &countedQueue[request]{TypedRateLimitingInterface: inner(name, limiter), due: map[request]time.Time{}, done: map[request]int{}, target: 1}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queues[app] = append(r.queues[app], c)
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
	r, limit := Rounds{Working: q.working}, time.Now().Add(soon)
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
	for key := range q.done {
		q.done[key], q.due[key] = 1, time.Now()
		again = append(again, key)
	}
	q.mu.Unlock()
	for _, key := range again {
		q.TypedRateLimitingInterface.Add(key)
	}
}

func (q *countedQueue[request]) added(key request, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(after)
	if before, known := q.due[key]; !known || q.done[key] < q.target && at.Before(before) {
		q.due[key] = at
	}
}

func (q *countedQueue[request]) Add(key request) {
	q.added(key, 0)
	q.TypedRateLimitingInterface.Add(key)
}

func (q *countedQueue[request]) AddAfter(key request, after time.Duration) {
	q.added(key, after)
	q.TypedRateLimitingInterface.AddAfter(key, after)
}

func (q *countedQueue[request]) AddRateLimited(key request) {
	q.added(key, 0)
	q.TypedRateLimitingInterface.AddRateLimited(key)
}

func (q *countedQueue[request]) Get() (key request, shutdown bool) {
	if key, shutdown = q.TypedRateLimitingInterface.Get(); !shutdown {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.working++
	}
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
