// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"maps"
	"time"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// visit is an uninterrupted time of a target in this process. The zero visit is that of the hub, and of a process that
// has all targets.
type visit struct {
	target state.ClusterName
	term   int64
}

// moving stays empty without IsAlive.
type moving struct {
	terms     map[state.ClusterName]int64     // the visits whose Holds are known
	waiting   map[state.ClusterName]int64     // the visits that the next read is for
	forgotten map[state.ClusterName]time.Time // when targets were removed whose Holds the Store may have
}

func newMoving() moving {
	return moving{
		terms: map[state.ClusterName]int64{}, waiting: map[state.ClusterName]int64{},
		forgotten: map[state.ClusterName]time.Time{},
	}
}

func (g *Guard) isShared() bool { return g.options.IsAlive != nil }

// know returns the ledger with the Holds of the target, or the error of the refusal.
func (c *call) know(ctx context.Context) (*ledger.Ledger, error) {
	if c.guard.isShared() && c.target.Name != "" {
		term, closed := c.target.Term()
		if closed != nil {
			return nil, closed
		}
		c.visit = visit{c.target.Name, term}
	}
	all, err := c.guard.load(ctx, c.visit)
	if err != nil {
		return nil, c.held(deletes.StoreUnavailable, err)
	}
	return all, nil
}

// isRead needs g.mu.
func (g *Guard) isRead(v visit) bool {
	term, known := g.moving.terms[v.target]
	return g.ledger != nil && (v.target == "" || known && term == v.term)
}

// await makes the next read one for a visit, too. It needs g.mu.
func (g *Guard) await(v visit) {
	if v.target != "" {
		g.moving.waiting[v.target] = v.term
	}
}

// owns reports whether a Hold's place in the ledger and its entry in the Store are this process's: it has the target,
// and has read the Holds of the visit.
func (g *Guard) owns(h *ledger.Held) bool {
	switch {
	case !g.isShared():
		return true
	case !h.IsOfTarget():
		return h.Replica == g.options.Replica
	}
	v, isHere := g.visitOf(h.Target)
	g.mu.Lock()
	defer g.mu.Unlock()
	return isHere && g.isRead(v)
}

func (g *Guard) visitOf(target state.ClusterName) (v visit, isHere bool) {
	if !g.isShared() {
		return visit{}, true
	}
	term, closed := g.options.Term(target)
	return visit{target, term}, closed == nil
}

// beginning is what is known when a read begins.
type beginning struct {
	visits map[state.ClusterName]int64 // that the read is for
	stored map[string]ledger.Held
}

func (g *Guard) begin() beginning {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := beginning{g.moving.waiting, maps.Clone(g.stored)}
	g.moving.waiting = map[state.ClusterName]int64{}
	return b
}

// putBack is for a failed read.
func (g *Guard) putBack(b beginning) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for target, term := range b.visits {
		if _, isNewer := g.moving.waiting[target]; !isNewer {
			g.moving.waiting[target] = term
		}
	}
}

// ownOf returns what the ledger shall have: the Holds of the visits, and others of this process that have not ended
// since. Holds of a target that is here and unknown need another read, since this one may have begun before the visit.
func (g *Guard) ownOf(there []ledger.Held, before beginning) (own []ledger.Held) {
	for _, h := range there {
		_, isVisited := before.visits[h.Target]
		_, wasStored := before.stored[h.ID]
		switch {
		case g.isForgotten(&h):
		case isVisited && h.IsOfTarget(), g.owns(&h) && !wasStored:
			own = append(own, h)
		case h.IsOfTarget() && !wasStored:
			if v, isHere := g.visitOf(h.Target); isHere {
				g.mu.Lock()
				g.await(v)
				g.mu.Unlock()
			}
		}
	}
	return own
}

// forsake drops the Holds of the visits of a read that the Store has, or had when the target was here before; those
// that could not be stored stay. It needs g.mu.
func (g *Guard) forsake(before beginning, own []ledger.Held) (dropped map[string]ledger.Held) {
	dropped = map[string]ledger.Held{}
	if len(before.visits) == 0 {
		return dropped
	}
	isStored := map[string]bool{}
	for _, h := range own {
		isStored[h.ID] = true
	}
	isOld := func(h *ledger.Held) bool {
		_, isVisited := before.visits[h.Target]
		_, was := before.stored[h.ID]
		return isVisited && h.IsOfTarget() && (was || isStored[h.ID])
	}
	for _, h := range g.ledger.Drop(isOld) {
		dropped[h.ID] = h
	}
	maps.DeleteFunc(g.stored, func(_ string, h ledger.Held) bool { return isOld(&h) })
	return dropped
}

// leave drops the stored Holds of targets that have left, even if they are back, since another process may have changed
// them. It writes nothing. Holds that could not be stored stay until they expire.
func (g *Guard) leave() {
	g.mu.Lock()
	terms := maps.Clone(g.moving.terms)
	g.mu.Unlock()
	dropped := map[string]ledger.Held{}
	for target, term := range terms {
		v, isHere := g.visitOf(target)
		if isHere && v.term == term {
			continue
		}
		for _, h := range g.leaveOne(visit{target, term}) {
			dropped[h.ID] = h
		}
		if isHere {
			g.mu.Lock()
			g.await(v)
			g.mu.Unlock()
		}
	}
	g.changedAll(dropped)
}

func (g *Guard) leaveOne(v visit) []ledger.Held {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isRead(v) {
		return nil // Another visit has begun.
	}
	delete(g.moving.terms, v.target)
	isOld := func(h *ledger.Held) bool {
		_, isStored := g.stored[h.ID]
		return isStored && h.IsOfTarget() && h.Target == v.target
	}
	dropped := g.ledger.Drop(isOld)
	maps.DeleteFunc(g.stored, func(_ string, h ledger.Held) bool { return isOld(&h) })
	return dropped
}

// isForgotten: the target was removed after the Hold began.
func (g *Guard) isForgotten(h *ledger.Held) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.moving.forgotten[h.Target]
	return ok && h.IsOfTarget() && !h.Since.After(at)
}

// forgetIn: the Store may have Holds of a removed target.
func (g *Guard) forgetIn(target state.ClusterName, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.moving.terms, target)
	delete(g.moving.waiting, target)
	maps.DeleteFunc(g.stored, func(_ string, h ledger.Held) bool { return h.IsOfTarget() && h.Target == target })
	g.moving.forgotten[target] = now
}
