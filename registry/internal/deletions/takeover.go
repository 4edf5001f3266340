// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"time"

	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// takeOver replaces the Holds of the hub and the fleet of processes that have ended, in one write. Of several processes
// one succeeds, and the others find its Holds.
func (g *Guard) takeOver(ctx context.Context, there *StoreContent) error {
	values := map[string]string{}
	var next []ledger.Held
	for key, entry := range there.Entries {
		replica, isHub := holds.ReplicaOf(key)
		if !isHub || g.isOwn(replica) || replica != "" && g.options.IsAlive(replica) {
			continue
		}
		values[key] = ""
		for _, h := range heldIn(entry, replica) {
			if !g.ledger.HasInPlaceOf(&h) {
				next = append(next, h.Successor(g.options.Replica))
			}
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
	restored := g.ledger.Restore(next, g.options.Now())
	g.mu.Unlock()
	for _, h := range restored {
		g.options.Began(h, true)
		g.show(h.Target)
	}
	return nil
}
