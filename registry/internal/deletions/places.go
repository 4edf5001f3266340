// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// place is where the Store has the Holds of a target, and the term in which this process has the target.
type place struct {
	key  string
	term int64
}

func placeIn(target state.ClusterName, uid types.UID, term int64) place {
	return place{cmp.Or(string(uid), string(target)), term}
}

func (g *Guard) hubPlace() place { return place{key: holds.KeyOf(g.options.Replica)} }

// placeOf: a process without others has the hub always, and keeps the Holds of a target that is gone until they end.
func (g *Guard) placeOf(target state.ClusterName) (p place, closed error) {
	isShared := g.options.IsAlive != nil
	if target == "" && !isShared {
		return g.hubPlace(), nil
	}
	uid, term, closed := g.options.Place(target)
	switch {
	case target == "":
		return g.hubPlace(), closed
	case closed == nil || isShared:
		return placeIn(target, uid, term), closed
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known, ok := g.places[target]; ok {
		return known, nil
	}
	return place{}, closed
}

// know returns the error of the refusal if the Holds of the target are not in the ledger.
func (c *call) know(ctx context.Context) error {
	var term int64
	if c.target.Term != nil {
		var closed error
		if term, closed = c.target.Term(); closed != nil {
			return closed
		}
	}
	c.place = placeIn(c.target.Name, c.target.UID, term)
	var err error
	if c.target.Name == "" {
		c.place = c.guard.hubPlace()
		app := c.app(ctx)
		if of, closed := c.guard.placeOf(app); app != "" && closed == nil { // The app may come from a process with Holds of the hub.
			err = c.guard.load(ctx, app, of)
		}
	}
	if err == nil {
		err = c.guard.load(ctx, c.target.Name, c.place)
	}
	if err != nil {
		return c.held(deletes.StoreUnavailable, err)
	}
	return nil
}

// isRead reports whether the ledger has the Holds of a target in this place, and those of the hub. It needs g.mu.
func (g *Guard) isRead(target state.ClusterName, p place) bool {
	_, hub := g.places[""]
	known, ok := g.places[target]
	return hub && ok && known == p
}

// isHere reports whether this process has a target, and its Holds in the ledger.
func (g *Guard) isHere(target state.ClusterName) bool {
	p, closed := g.placeOf(target)
	g.mu.Lock()
	defer g.mu.Unlock()
	return closed == nil && g.isRead(target, p)
}

// load returns when the ledger has the Holds of a target. Calls at the same time share a read, which goes on if one of
// them ends. A target that came during a read needs another.
func (g *Guard) load(ctx context.Context, target state.ClusterName, p place) error {
	read := func() (any, error) {
		_, err := g.read(context.WithoutCancel(ctx)) // The Store ends it.
		if err == nil {
			g.available()
		}
		return nil, err
	}
	for g.await(target, p) {
		select {
		case done := <-g.reads.DoChan("", read):
			if done.Err != nil {
				return done.Err
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for the holds of deletes: %w", context.Cause(ctx))
		}
	}
	return nil
}

// await makes the next read one for a target, too, and reports whether it needs one.
func (g *Guard) await(target state.ClusterName, p place) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isRead(target, p) {
		return false
	}
	g.waiting[target] = p
	return true
}

// read takes the Holds of the targets that wait, and of the hub the first time.
func (g *Guard) read(ctx context.Context) (*StoreContent, error) {
	g.mu.Lock()
	waiting := g.waiting
	g.waiting = map[state.ClusterName]place{}
	g.mu.Unlock()
	there, err := g.options.Store.Load(ctx)
	if err != nil {
		g.mu.Lock()
		maps.Copy(waiting, g.waiting)
		g.waiting = waiting
		g.mu.Unlock()
		return there, fmt.Errorf("read the holds of deletes: %w", err)
	}
	g.take(there, "", g.hubPlace())
	if len(waiting) > 0 { // Targets have come, perhaps from processes with such Holds.
		g.inherit(there, func(*ledger.Held) bool { return true })
	}
	for target, p := range waiting {
		g.take(there, target, p)
	}
	g.show(slices.Collect(maps.Keys(waiting))...)
	return there, nil
}

// take replaces what the ledger has of a target, unless another read has done so.
func (g *Guard) take(there *StoreContent, target state.ClusterName, p place) {
	g.mu.Lock()
	if g.isRead(target, p) {
		g.mu.Unlock()
		return
	}
	known := map[string]bool{}
	for _, h := range g.ledger.Forget(target) {
		known[h.ID] = true
	}
	var restored []ledger.Held
	for _, key := range g.keysOf(there, target, p) {
		replica, _ := holds.ReplicaOf(key)
		restored = append(restored, g.ledger.Restore(heldIn(there.Entries[key], replica), g.options.Now())...)
		g.note(key, saved{target, there.Values[key]})
	}
	g.places[target] = p
	g.mu.Unlock()
	for _, h := range restored {
		if !known[h.ID] {
			g.options.Began(h, true)
		}
	}
}

func (g *Guard) keysOf(there *StoreContent, target state.ClusterName, p place) (keys []string) {
	if target != "" {
		return []string{p.key}
	}
	for key := range there.Entries {
		if replica, isHub := holds.ReplicaOf(key); isHub && g.isOwn(replica) {
			keys = append(keys, key)
		}
	}
	return keys
}

// isOwn reports whether Holds of the hub, or of the fleet, are this process's. One without others has all.
func (g *Guard) isOwn(replica string) bool {
	return g.options.IsAlive == nil || replica == g.options.Replica
}

// leave drops the Holds of targets that this process has no longer, or had to give away meanwhile. It writes nothing.
func (g *Guard) leave() {
	g.mu.Lock()
	known := maps.Clone(g.places)
	g.mu.Unlock()
	for target, before := range known {
		now, closed := g.placeOf(target)
		if closed == nil && now == before {
			continue
		}
		g.mu.Lock()
		if g.places[target] == before {
			delete(g.places, target)
			g.ledger.Forget(target)
		}
		if closed == nil {
			g.waiting[target] = now
		}
		g.mu.Unlock()
	}
}

type admission struct {
	ticket  *ledger.Ticket
	store   *ledger.Held
	held    error
	isKnown bool // otherwise there is no decision
}

func (c *call) tryAdmit(ask ledger.Request) (one admission) {
	g := c.guard
	now := g.options.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if one.isKnown = g.isRead(c.target.Name, c.place); one.isKnown {
		one.ticket, one.store, one.held = g.ledger.Admit(ask, now)
	}
	return one
}
