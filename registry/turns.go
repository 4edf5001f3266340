// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"sync"
	"time"
)

// turns bound how many things of one kind are begun at the same time, so that thousands of remotes
// do not all list, or shake hands, at once. They are given in the order of rank, and in the order of
// asking among equals. A turn ends when its holder says so, and at its limit at the latest: turns
// smooth a herd, and one remote that takes long must not hold up the others.
type turns struct {
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

// rank says who goes first.
type rank int

const (
	rankKnown   rank = iota // was there before
	rankNew                 // is seen for the first time
	rankFailed              // has failed, and tries again
	rankSuspect             // may have crashed the hub: goes last, and alone
	ranks
)

func newTurns(capacity int, limit time.Duration) *turns {
	return &turns{limit: limit, free: capacity, capacity: capacity}
}

// take waits for a turn. The caller calls release when it is done.
func (t *turns) take(ctx context.Context, r rank) (release func(), err error) {
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
	if r == rankSuspect {
		limit = max(limit, suspectTurn)
	}
	timer := time.AfterFunc(limit, giveBack)
	return func() {
		timer.Stop()
		giveBack()
	}, nil
}

// leave gives up waiting, or gives back a turn that came in the same moment.
func (t *turns) leave(r rank, mine chan struct{}) {
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

func (t *turns) giveBack(r rank) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += t.price(r)
	if r == rankSuspect {
		t.alone = time.Now()
	}
	t.grant()
}

// price is how many of the places a turn takes: a suspect takes all of them.
func (t *turns) price(r rank) int {
	if r == rankSuspect {
		return t.capacity
	}
	return 1
}

// grant gives turns to those who wait while there are free places. It is called with the lock held.
func (t *turns) grant() {
	first := rankKnown
	if s := t.waiting[rankSuspect]; len(s) > 0 && time.Since(s[0].since) > suspectPatience && time.Since(t.alone) > t.limit {
		first = rankSuspect
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
