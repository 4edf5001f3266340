// SPDX-License-Identifier: Apache-2.0

package startqueue

import (
	"context"
	"sync"
	"time"
)

// Queue bound how many things of one kind are begun at the same time, so that thousands of remotes
// do not all list, or shake hands, at once. They are given in the order of rank, and in the order of
// asking among equals. A turn ends when its holder says so, and at its limit at the latest: turns
// smooth a herd, and one remote that takes long must not hold up the others.
type Queue struct {
	limit time.Duration

	mu       sync.Mutex // protects the fields below
	free     int
	capacity int
	waiting  [ranks][]asked
	alone    time.Time // when a suspect last gave its turn back
}

// asked is somebody who waits for a turn.
type asked struct {
	turn  chan struct{} // closed when it has come
	since time.Time
}

// A suspect may keep its turn for longer, to prove itself alone. When one has waited for suspectPatience,
// nobody else gets a turn before it has had its own; between two of them the others get the time of one turn.
const (
	suspectTurn     = 30 * time.Second
	suspectPatience = 30 * time.Second
)

// Rank says who goes first.
type Rank int

const (
	RankKnown   Rank = iota // was there before
	RankNew                 // is seen for the first time
	RankFailed              // has failed, and tries again
	RankSuspect             // may have crashed the hub: goes last, and alone
	ranks
)

func New(capacity int, limit time.Duration) *Queue {
	return &Queue{limit: limit, free: capacity, capacity: capacity}
}

// Acquire waits for a turn. The caller calls release when it is done.
func (t *Queue) Acquire(ctx context.Context, r Rank) (release func(), err error) {
	mine := make(chan struct{})
	t.mu.Lock()
	t.waiting[r] = append(t.waiting[r], asked{mine, time.Now()})
	t.grant()
	t.mu.Unlock()
	select {
	case <-mine:
	case <-ctx.Done():
		t.leave(r, mine)
		return nil, context.Cause(ctx)
	}
	giveBack := sync.OnceFunc(func() { t.giveBack(r) })
	limit := t.limit
	if r == RankSuspect {
		limit = max(limit, suspectTurn)
	}
	timer := time.AfterFunc(limit, giveBack)
	return func() {
		timer.Stop()
		giveBack()
	}, nil
}

// leave gives up waiting, or gives back a turn that came in the same moment.
func (t *Queue) leave(r Rank, mine chan struct{}) {
	t.mu.Lock()
	for i, other := range t.waiting[r] {
		if other.turn == mine {
			t.waiting[r] = append(t.waiting[r][:i], t.waiting[r][i+1:]...)
			t.grant()
			t.mu.Unlock()
			return
		}
	}
	t.mu.Unlock()
	t.giveBack(r)
}

func (t *Queue) giveBack(r Rank) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += t.price(r)
	if r == RankSuspect {
		t.alone = time.Now()
	}
	t.grant()
}

// price is how many of the places a turn takes: a suspect takes all of them.
func (t *Queue) price(r Rank) int {
	if r == RankSuspect {
		return t.capacity
	}
	return 1
}

// grant gives turns to those who wait while there are free places. It is called with the lock held.
func (t *Queue) grant() {
	first := RankKnown
	if s := t.waiting[RankSuspect]; len(s) > 0 && time.Since(s[0].since) > suspectPatience && time.Since(t.alone) > t.limit {
		first = RankSuspect
	}
	for r := first; r < ranks; r++ {
		for len(t.waiting[r]) > 0 {
			if t.free < t.price(r) {
				return
			}
			t.free -= t.price(r)
			close(t.waiting[r][0].turn)
			t.waiting[r] = t.waiting[r][1:]
		}
	}
}
