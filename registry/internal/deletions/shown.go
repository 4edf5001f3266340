// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"maps"
	"slices"

	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

// State is what the hub reports about a target's deletes. The numbers change with the upkeep only, so that no report is
// written for each refused delete.
type State struct {
	// Known is false for a target that this process does not have.
	Known bool
	// Holds began in the target, sorted by id.
	Holds []ledger.Held
	// Unavailable is why deletes were refused since the Store was last available, or nil.
	Unavailable error
}

type shown struct {
	holds       []ledger.Held                  // sorted by id
	asked       map[state.ClusterName]struct{} // targets whose State was not known yet
	unavailable map[state.ClusterName]error
}

func newShown() shown {
	return shown{asked: map[state.ClusterName]struct{}{}, unavailable: map[state.ClusterName]error{}}
}

// Shown returns the State of a target.
func (g *Guard) Shown(target state.ClusterName) State {
	v, isHere := g.visitOf(target)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{Known: isHere && g.isRead(v), Unavailable: g.shown.unavailable[target]}
	if isHere && !s.Known {
		g.shown.asked[target] = struct{}{}
		g.await(v)
	}
	for _, h := range g.shown.holds {
		if h.Target == target {
			s.Holds = append(s.Holds, h)
		}
	}
	return s
}

func (g *Guard) changed(holds ...ledger.Held) {
	if len(holds) == 0 {
		return
	}
	g.mu.Lock()
	g.shown.holds = g.ledger.Holds()
	g.mu.Unlock()
	for _, h := range holds {
		g.options.Changed(h.Target)
	}
}

func (g *Guard) changedAll(holds map[string]ledger.Held) {
	g.changed(slices.Collect(maps.Values(holds))...)
}

func (g *Guard) ended(holds []ledger.Held) {
	for _, h := range holds {
		g.options.Ended(h)
	}
	g.changed(holds...)
}

func (g *Guard) unavailable(target state.ClusterName, err error) {
	g.mu.Lock()
	_, known := g.shown.unavailable[target]
	if !known {
		g.shown.unavailable[target] = err
	}
	g.mu.Unlock()
	if !known {
		g.options.Changed(target)
	}
}

func (g *Guard) available() {
	g.mu.Lock()
	targets := slices.AppendSeq(slices.Collect(maps.Keys(g.shown.unavailable)), maps.Keys(g.shown.asked))
	clear(g.shown.unavailable)
	clear(g.shown.asked)
	g.mu.Unlock()
	for _, target := range targets {
		g.options.Changed(target)
	}
}

func (g *Guard) forget(target state.ClusterName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.shown.unavailable, target)
	delete(g.shown.asked, target)
}
