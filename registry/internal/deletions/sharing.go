// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// lookEvery is for a process without Holds: those of ended processes wait for a successor.
const lookEvery = 30 * time.Second

func (g *Guard) isDue() bool {
	if !g.isShared() {
		return false
	}
	isLate := g.options.Now().Sub(g.looked) >= lookEvery
	g.mu.Lock()
	defer g.mu.Unlock()
	return isLate || len(g.moving.waiting)+len(g.moving.forgotten) > 0
}

// lookShared reads the Store, takes this process's Holds, removes those of removed targets, and takes over those of
// ended processes.
func (g *Guard) lookShared(ctx context.Context) (*StoreContent, error) {
	g.mu.Lock()
	forgotten := maps.Clone(g.moving.forgotten)
	g.mu.Unlock()
	began := g.options.Now()
	there, err := g.read(ctx)
	if err == nil && g.isWaiting() { // A target of this process has a Hold there, and was not among those that the read was for.
		there, err = g.read(ctx)
	}
	if err != nil {
		return there, err
	}
	g.looked = began
	return there, errors.Join(g.takeOver(ctx, there), g.removeForgotten(ctx, there, forgotten))
}

func (g *Guard) isWaiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.moving.waiting) > 0
}

func (g *Guard) removeForgotten(ctx context.Context, there *StoreContent, forgotten map[state.ClusterName]time.Time) error {
	var problems []error
	for _, h := range there.Holds {
		_, isOld := forgotten[h.Target]
		if _, inForce := g.known().Hold(h.ID); !isOld || inForce || !g.isForgotten(&h) {
			continue
		}
		problems = append(problems, g.options.Store.Remove(ctx, h.ID))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for target, at := range forgotten {
		if g.moving.forgotten[target].Equal(at) {
			delete(g.moving.forgotten, target)
		}
	}
	return nil
}

// takeOver replaces Holds of the hub or the fleet whose process has ended. Of several processes one succeeds, and the
// others find its Hold.
func (g *Guard) takeOver(ctx context.Context, there *StoreContent) error {
	version := there.Version
	for _, h := range there.Holds {
		if h.IsOfTarget() || h.Replica == g.options.Replica || h.Replica != "" && g.options.IsAlive(h.Replica) {
			continue
		}
		var by *ledger.Held
		if !g.known().HasInPlaceOf(&h) {
			next := h.Successor(g.options.Replica)
			by = &next
		}
		next, err := g.options.Store.Replace(ctx, version, h.ID, by)
		if err != nil || next == "" {
			g.looked = time.Time{} // The next upkeep looks again.
			return err
		}
		version = next
		if by != nil {
			g.succeed(*by)
		}
	}
	return nil
}

func (g *Guard) succeed(h ledger.Held) {
	now := g.options.Now()
	g.mu.Lock()
	g.stored[h.ID] = h
	restored := g.ledger.Restore([]ledger.Held{h}, now)
	g.mu.Unlock()
	for _, h := range restored {
		g.options.Began(h, true)
	}
	g.changed(restored...)
}
