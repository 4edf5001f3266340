// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"fmt"

	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

func (g *Guard) known() *ledger.Ledger {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ledger
}

// reading is a read of the Store that several calls share.
type reading struct {
	done  chan struct{}
	err   error // read it, and ended, only after done
	ended bool  // the context of the call that reads has ended
}

// load returns the ledger with the Holds of a visit. The first call reads; calls at the same time wait for it and fail
// with it, so that they do not wait for failures one after the other. If it ends, another one reads. A visit that began
// during a read needs another.
func (g *Guard) load(ctx context.Context, v visit) (*ledger.Ledger, error) {
	for {
		all, one, isFirst := g.join(v)
		if all != nil {
			return all, nil
		}
		if isFirst {
			g.lead(ctx, one)
		}
		select {
		case <-one.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the holds of deletes: %w", context.Cause(ctx))
		}
		if one.err != nil && (isFirst || !one.ended) {
			return nil, one.err
		}
	}
}

// join's isFirst says that the caller has to lead the read.
func (g *Guard) join(v visit) (all *ledger.Ledger, one *reading, isFirst bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isRead(v) {
		return g.ledger, nil, false
	}
	g.await(v)
	if g.reading != nil {
		return nil, g.reading, false
	}
	g.reading = &reading{done: make(chan struct{})}
	return nil, g.reading, true
}

func (g *Guard) lead(ctx context.Context, one *reading) {
	_, one.err = g.read(ctx)
	one.ended = ctx.Err() != nil
	g.mu.Lock()
	g.reading = nil
	g.mu.Unlock()
	close(one.done)
}

// read leaves Holds in force as they are, except those of targets that wait for a read.
func (g *Guard) read(ctx context.Context) (*StoreContent, error) {
	before := g.begin()
	there, err := g.options.Store.Load(ctx)
	if err != nil {
		g.putBack(before)
		return there, fmt.Errorf("read the holds of deletes: %w", err)
	}
	g.take(there.Holds, before)
	g.available()
	return there, nil
}

func (g *Guard) take(there []ledger.Held, before beginning) {
	own := g.ownOf(there, before)
	now := g.options.Now()
	g.mu.Lock()
	if g.ledger == nil {
		g.ledger = ledger.New()
	}
	dropped := g.forsake(before, own)
	restored := g.ledger.Restore(own, now)
	for _, h := range own {
		g.stored[h.ID] = h
	}
	for target, term := range before.visits {
		g.moving.terms[target] = term
	}
	g.mu.Unlock()
	for _, h := range restored {
		if _, was := dropped[h.ID]; !was {
			g.options.Began(h, true)
		}
		dropped[h.ID] = h
	}
	g.changedAll(dropped)
}

type admission struct {
	ticket  *ledger.Ticket
	store   *ledger.Held
	held    error
	isKnown bool // the Holds of the visit are known; otherwise there is no decision
}

func (g *Guard) admit(v visit, ask ledger.Request) (one admission) {
	now := g.options.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.isKnown = g.isRead(v); one.isKnown {
		one.ticket, one.store, one.held = g.ledger.Admit(ask, now)
	}
	return one
}
