// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"context"
	"math"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
)

// Removal is the removal of a Cluster, which has all modules clean up.
type Removal struct {
	Name  string
	UID   types.UID
	Fleet int
}

// limit for a Window is 3, or a twentieth of the fleet.
func (r Removal) limit() int { return max(ledger.LimitsFor(clusters()).PerTarget, r.Fleet/20) }

func clusters() schema.GroupResource {
	return schema.GroupResource{Group: "clusterfx.dev", Resource: "clusters"}
}

// AdmitRemoval returns nil if a Cluster may be removed, or a *deletes.HeldError. The Store counts, so the limit is that
// of all processes, also after a restart. An admitted removal stays so for a Window.
func (g *Guard) AdmitRemoval(ctx context.Context, r Removal) error {
	one := g.on(ctx, Target{}, clusters())
	if err := one.know(ctx); err != nil {
		return err
	}
	if g.options.IsAlive != nil && !g.ledger.IsHeld(one.key) { // The Cluster may come from a process that holds its removal.
		there, err := g.options.Store.Load(ctx)
		if err != nil {
			return one.held(deletes.StoreUnavailable, err)
		}
		g.inherit(there, func(h *ledger.Held) bool { return h.Module == one.key.Module && h.Kind() == clusters() })
	}
	limit := r.limit()
	if g.ledger.IsHeld(one.key) {
		limit = 0 // Nothing but what was admitted before.
	}
	claimed, others, err := g.options.Store.Claim(ctx, r.UID, limit, g.options.Now())
	switch {
	case err != nil:
		return one.held(deletes.StoreUnavailable, err)
	case claimed:
		return nil
	}
	// Without a limit of its own, the ledger admits what a Hold allows.
	if _, err := one.admit(ctx, ledger.Request{
		Key: one.key, Name: r.Name, UID: r.UID, Counted: others, Limits: ledger.Limits{PerFleet: math.MaxInt}, Note: noteRemoval,
	}); err != nil {
		return err
	}
	if _, _, err := g.options.Store.Claim(ctx, r.UID, math.MaxInt, g.options.Now()); err != nil {
		return one.held(deletes.StoreUnavailable, err)
	}
	return nil
}

const noteRemoval = "Their apps run until the removal is allowed; without its finalizer a Cluster goes without cleanup"
