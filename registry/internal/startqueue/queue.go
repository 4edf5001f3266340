// SPDX-License-Identifier: Apache-2.0

// Package startqueue limits how many operations of one kind run at the same time, and decides which operation is next.
// The registry has two queues: one for the starts of apps, one for the first contact with a remote.
package startqueue

import (
	"context"
	"sync"
	"time"
)

// Queue limits how many operations run at the same time, so that thousands of remotes do not all list, or negotiate TLS,
// at once. Slots are granted by Rank, and in the order of the requests within a rank. A slot is free again when its
// owner releases it, and after the limit of the queue in any case: the queue smooths a burst, and one slow remote must
// not delay the others. While the hub is overloaded, the queue grants fewer slots, down to one at a time. All methods may
// be called from any goroutine.
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

// waiter is a call of Acquire that has no slot yet.
type waiter struct {
	granted chan struct{} // closed when the slot is granted
	since   time.Time
}

// A suspect may keep its slot for longer, to prove itself alone. When one has waited for suspectPatience, it gets the next
// slot before all others; between two suspects the others run for one limit of the queue.
const (
	suspectLimit    = 30 * time.Second
	suspectPatience = 30 * time.Second
)

// How fast the width of a queue changes. In an overload it falls from 64 slots to one within three seconds: a replica is late after
// 3 s without a renewal of its Lease, and fences itself after 7 s. It returns within 36 s of the last sight of the overload.
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

// New returns a queue with capacity slots, each of which is free again after limit. Overloaded reports whether the hub has more
// work than it can do in time; it does not block.
func New(capacity int, limit time.Duration, overloaded func() bool) *Queue {
	return &Queue{limit: limit, capacity: capacity, width: capacity, overloaded: overloaded, narrow: narrowEvery}
}

// Adapting sets the time after which the queue becomes narrower, for tests; 0 changes nothing. It returns the queue.
func (q *Queue) Adapting(narrow time.Duration) *Queue {
	if narrow > 0 {
		q.narrow = narrow
	}
	return q
}

// Acquire waits for a slot. The caller must call release when the operation is done. It returns the cause of ctx if ctx
// ends first.
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

// leave removes a waiter, or releases the slot that was granted in the same moment.
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

// adapt makes the queue narrower while the hub is overloaded, and wider again afterwards. The caller holds the lock.
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

// price is how many slots a request takes: a suspect takes all of them.
func (q *Queue) price(r Rank) int {
	if r == RankSuspect {
		return q.capacity
	}
	return 1
}

// isFree reports whether a request may have its slots. The caller holds the lock.
func (q *Queue) isFree(r Rank) bool {
	if r == RankSuspect {
		return q.used == 0
	}
	return q.used < q.width
}

// grant gives slots to waiters while any are free. If none is used, the first waiter gets one, so that a release always follows.
// The caller holds the lock.
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
