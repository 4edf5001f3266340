// SPDX-License-Identifier: Apache-2.0

// Package startqueue limits how many operations of a kind run at the same time, and decides which is next. The registry
// has two queues: for starts of apps, and for first contacts with remotes.
package startqueue

import (
	"context"
	"sync"
	"time"
)

// Queue limits operations, so that thousands of remotes do not list or negotiate TLS at once. Slots go by Rank, then in
// the order of requests, and are free again when released, or after the queue's limit, since one slow remote must not
// delay the others. An overloaded hub grants fewer, down to one. It is safe for many goroutines.
type Queue struct {
	limit      time.Duration
	capacity   int
	overloaded func() bool
	narrow     time.Duration // after which the queue becomes narrower; wider after widenAfter times that

	mu      sync.Mutex // protects the fields below
	used    int
	width   int       // how many slots are granted at the same time, from 1 to capacity
	changed time.Time // when width changed last, or the overload was last seen with one slot
	waiting [ranks][]waiter
	alone   time.Time // when a suspect last released its slot
}

type waiter struct {
	granted chan struct{} // closed when the slot is granted
	since   time.Time
}

// A suspect may keep its slot for longer, to prove itself alone. After suspectPatience it gets the next slot before all
// others; between two suspects the others run for one limit of the queue.
const (
	suspectLimit    = 30 * time.Second
	suspectPatience = 30 * time.Second
)

// How fast the width changes. In an overload it falls from 64 slots to one within three seconds: a replica is late
// after 3 s without a renewal of its Lease, and fences itself after 7 s. It returns within 36 s.
const (
	narrowEvery, narrowBy = time.Second, 4
	widenAfter, widenBy   = 2, 4
)

// Rank is the priority of a request; the lowest value is first.
type Rank int

// The ranks, from the first to the last.
const (
	RankKnown   Rank = iota // the hub knew the remote before its start
	RankNew                 // the remote is new
	RankFailed              // a retry after a failure, or after an end of the hub's process
	RankSuspect             // the app may end the process: last, and alone
	ranks
)

// New returns a queue with capacity slots, each free again after limit. overloaded must not block.
func New(capacity int, limit time.Duration, overloaded func() bool) *Queue {
	return &Queue{limit: limit, capacity: capacity, width: capacity, overloaded: overloaded, narrow: narrowEvery}
}

// Adapting sets, for tests, the time after which the queue narrows; 0 changes nothing. It returns the queue.
func (q *Queue) Adapting(narrow time.Duration) *Queue {
	if narrow > 0 {
		q.narrow = narrow
	}
	return q
}

// Acquire waits for a slot, or returns the cause of ctx. The caller must call release when the operation is done.
func (q *Queue) Acquire(ctx context.Context, r Rank) (release func(), err error) {
	granted, overloaded := make(chan struct{}), q.overloaded()
	q.mu.Lock()
	q.waiting[r] = append(q.waiting[r], waiter{granted, time.Now()})
	q.adapt(overloaded)
	q.grant()
	q.mu.Unlock()
	select {
	case <-granted:
	case <-ctx.Done():
		q.leave(r, granted)
		return nil, context.Cause(ctx)
	}
	free := sync.OnceFunc(func() { q.release(r) })
	limit := q.limit
	if r == RankSuspect {
		limit = max(limit, suspectLimit)
	}
	timer := time.AfterFunc(limit, free)
	return func() {
		timer.Stop()
		free()
	}, nil
}

// leave releases a slot that was granted in the same moment.
func (q *Queue) leave(r Rank, granted chan struct{}) {
	q.mu.Lock()
	for i, other := range q.waiting[r] {
		if other.granted == granted {
			q.waiting[r] = append(q.waiting[r][:i], q.waiting[r][i+1:]...)
			q.grant()
			q.mu.Unlock()
			return
		}
	}
	q.mu.Unlock()
	q.release(r)
}

func (q *Queue) release(r Rank) {
	overloaded := q.overloaded()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= q.price(r)
	if r == RankSuspect {
		q.alone = time.Now()
	}
	q.adapt(overloaded)
	q.grant()
}

// adapt needs the lock.
func (q *Queue) adapt(overloaded bool) {
	if overloaded && (q.width == 1 || time.Since(q.changed) >= q.narrow) {
		q.width, q.changed = max(q.width/narrowBy, 1), time.Now()
	}
	for !overloaded && q.width < q.capacity && time.Since(q.changed) >= widenAfter*q.narrow {
		q.width, q.changed = min(q.width+max(q.width/widenBy, 1), q.capacity), q.changed.Add(widenAfter*q.narrow)
	}
}

// Width returns how many slots the queue grants at the same time.
func (q *Queue) Width() int {
	overloaded := q.overloaded()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.adapt(overloaded)
	return q.width
}

// price of a suspect is all slots.
func (q *Queue) price(r Rank) int {
	if r == RankSuspect {
		return q.capacity
	}
	return 1
}

// isFree needs the lock.
func (q *Queue) isFree(r Rank) bool {
	if r == RankSuspect {
		return q.used == 0
	}
	return q.used < q.width
}

// grant gives slots to waiters. If none is used, the first waiter gets one, so that a release always follows. It needs
// the lock.
func (q *Queue) grant() {
	first := RankKnown
	if s := q.waiting[RankSuspect]; len(s) > 0 && time.Since(s[0].since) > suspectPatience && time.Since(q.alone) > q.limit {
		first = RankSuspect
	}
	for r := first; r < ranks; r++ {
		for len(q.waiting[r]) > 0 {
			if !q.isFree(r) {
				return
			}
			q.used += q.price(r)
			close(q.waiting[r][0].granted)
			q.waiting[r] = q.waiting[r][1:]
		}
	}
}
