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

// visit is a time in which this process has a target without an interruption. The zero visit is that of the hub, and of all
// targets of a process that has all of them.
type visit struct {
	target state.ClusterName
	term   int64
}

// moving is what a Guard knows of targets that move between the processes of a hub. Without IsAlive it stays empty.
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

// isShared reports whether the processes of the hub share the targets.
func (g *Guard) isShared() bool { return g.options.IsAlive != nil }

// know returns the ledger when it has the Holds of the target, or the error with which the delete is refused.
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

// isRead reports whether the ledger has the Holds of a visit. The caller has g.mu.
func (g *Guard) isRead(v visit) bool {
	term, known := g.moving.terms[v.target]
	return g.ledger != nil && (v.target == "" || known && term == v.term)
}

// await makes the next read one for a visit, too. The caller has g.mu.
func (g *Guard) await(v visit) {
	if v.target != "" {
		g.moving.waiting[v.target] = v.term
	}
}

// owns reports whether a Hold belongs to this process: its place in the ledger, and its entry in the Store. The Hold of a target
// belongs to the process that has the target and has read the Holds of its visit.
func (g *Guard) owns(h *ledger.Hold) bool {
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

// visitOf returns the visit of a target, if this process has the target.
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
	stored map[string]ledger.Hold
}

func (g *Guard) begin() beginning {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := beginning{g.moving.waiting, maps.Clone(g.stored)}
	g.moving.waiting = map[state.ClusterName]int64{}
	return b
}

// putBack makes the next read one for the visits of a read that has failed.
func (g *Guard) putBack(b beginning) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for target, term := range b.visits {
		if _, isNewer := g.moving.waiting[target]; !isNewer {
			g.moving.waiting[target] = term
		}
	}
}

// ownOf returns the Holds of a read that the ledger shall have: those of the visits, and others of this process that have not
// ended since. Holds of a target that this process has and does not know need another read, since the read may have begun before
// the visit.
func (g *Guard) ownOf(there []ledger.Hold, before beginning) (own []ledger.Hold) {
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

// forsake drops the Holds of the visits of a read: those that the Store has, which are restored as they are there, and those that
// it had when this process had the target before. Holds that could not be stored stay. The caller has g.mu.
func (g *Guard) forsake(before beginning, own []ledger.Hold) (dropped map[string]ledger.Hold) {
	dropped = map[string]ledger.Hold{}
	if len(before.visits) == 0 {
		return dropped
	}
	isStored := map[string]bool{}
	for _, h := range own {
		isStored[h.ID] = true
	}
	isOld := func(h *ledger.Hold) bool {
		_, isVisited := before.visits[h.Target]
		_, was := before.stored[h.ID]
		return isVisited && h.IsOfTarget() && (was || isStored[h.ID])
	}
	for _, h := range g.ledger.Drop(isOld) {
		dropped[h.ID] = h
	}
	maps.DeleteFunc(g.stored, func(_ string, h ledger.Hold) bool { return isOld(&h) })
	return dropped
}

// leave drops the stored Holds of targets that this process no longer has, or has had with an interruption: another process may
// have changed or ended them. It writes nothing. Holds that could not be stored stay until they expire.
func (g *Guard) leave() {
	g.mu.Lock()
	terms := maps.Clone(g.moving.terms)
	g.mu.Unlock()
	dropped := map[string]ledger.Hold{}
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

func (g *Guard) leaveOne(v visit) []ledger.Hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isRead(v) {
		return nil // Another visit has begun.
	}
	delete(g.moving.terms, v.target)
	isOld := func(h *ledger.Hold) bool {
		_, isStored := g.stored[h.ID]
		return isStored && h.IsOfTarget() && h.Target == v.target
	}
	dropped := g.ledger.Drop(isOld)
	maps.DeleteFunc(g.stored, func(_ string, h ledger.Hold) bool { return isOld(&h) })
	return dropped
}

// isForgotten reports whether a Hold is one of a target that was removed after it began.
func (g *Guard) isForgotten(h *ledger.Hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.moving.forgotten[h.Target]
	return ok && h.IsOfTarget() && !h.Since.After(at)
}

// forgetIn notes that the Store may have Holds of a target that was removed.
func (g *Guard) forgetIn(target state.ClusterName, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.moving.terms, target)
	delete(g.moving.waiting, target)
	maps.DeleteFunc(g.stored, func(_ string, h ledger.Hold) bool { return h.IsOfTarget() && h.Target == target })
	g.moving.forgotten[target] = now
}
