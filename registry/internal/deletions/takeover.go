// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"slices"
	"time"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// takeOver replaces the Holds of the hub and the fleet of processes that have ended, in one write. Of several processes
// one succeeds, and the others find its Holds.
func (g *Guard) takeOver(ctx context.Context, there *StoreContent) error {
	values := map[string]string{}
	var next []ledger.Held
	for key, all := range g.others(there) {
		if replica, _ := holds.ReplicaOf(key); replica == "" || !g.options.IsAlive(replica) {
			values[key] = ""
			next = append(next, all...)
		}
	}
	if len(values) == 0 {
		return nil
	}
	if err := g.lockStore(ctx); err != nil {
		return err
	}
	defer g.unlockStore()
	own := g.hubPlace().key
	g.mu.Lock()
	text, err := g.encode(own, next...)
	g.mu.Unlock()
	if err != nil {
		return err
	}
	values[own] = text
	done, err := g.options.Store.Write(ctx, there.Version, values)
	if err != nil || !done {
		g.looked = time.Time{} // The next upkeep looks again.
		return err
	}
	g.mu.Lock()
	g.note(own, saved{"", text})
	g.mu.Unlock()
	g.restore(next)
	return nil
}

// others returns Holds in place of those of the hub and the fleet of other processes, unless there are some, by the key of those.
func (g *Guard) others(there *StoreContent) map[string][]ledger.Held {
	all := map[string][]ledger.Held{}
	for key, entry := range there.Entries {
		replica, isHub := holds.ReplicaOf(key)
		if !isHub || g.isOwn(replica) {
			continue
		}
		all[key] = nil
		for _, h := range heldIn(entry, replica) {
			if !g.ledger.HasInPlaceOf(&h) {
				all[key] = append(all[key], h.Successor(g.options.Replica))
			}
		}
	}
	return all
}

// inherit adds Holds in place of some of the hub and the fleet of other processes, which may live: what asked there may ask here.
// The upkeep stores them.
func (g *Guard) inherit(there *StoreContent, which func(*ledger.Held) bool) {
	for _, all := range g.others(there) {
		g.restore(slices.DeleteFunc(all, func(h ledger.Held) bool { return !which(&h) }))
	}
}

func (g *Guard) restore(next []ledger.Held) {
	for _, h := range g.ledger.Restore(next, g.options.Now()) {
		g.options.Began(h, true)
		g.show(h.Target())
	}
}
