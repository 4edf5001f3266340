// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"maps"
	"reflect"
	"slices"
	"time"

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
	holds       map[state.ClusterName][]ledger.Held // without Asked
	asked       map[state.ClusterName]struct{}      // targets whose State was not known yet
	unavailable map[state.ClusterName]error
}

func newShown() shown {
	return shown{
		holds: map[state.ClusterName][]ledger.Held{}, asked: map[state.ClusterName]struct{}{}, unavailable: map[state.ClusterName]error{},
	}
}

// Shown returns the State of a target.
func (g *Guard) Shown(target state.ClusterName) State {
	p, closed := g.placeOf(target)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{
		Known: closed == nil && g.isRead(target, p), Unavailable: g.shown.unavailable[target], Holds: g.shown.holds[target],
	}
	if closed == nil && !s.Known {
		g.shown.asked[target] = struct{}{}
		g.waiting[target] = p
	}
	return s
}

func (g *Guard) showAll() {
	g.mu.Lock()
	shown := slices.Collect(maps.Keys(g.shown.holds))
	g.mu.Unlock()
	for _, h := range g.ledger.Holds() {
		shown = append(shown, h.Target())
	}
	g.show(shown...)
}

// show updates the States of targets.
func (g *Guard) show(targets ...state.ClusterName) {
	if len(targets) == 0 {
		return
	}
	g.mu.Lock()
	now := map[state.ClusterName][]ledger.Held{}
	for _, h := range g.ledger.Holds() {
		h.Asked = time.Time{}
		now[h.Target()] = append(now[h.Target()], h)
	}
	changed := slices.DeleteFunc(targets, func(target state.ClusterName) bool {
		if reflect.DeepEqual(g.shown.holds[target], now[target]) {
			return true
		}
		g.shown.holds[target] = now[target]
		if len(now[target]) == 0 {
			delete(g.shown.holds, target)
		}
		return false
	})
	g.mu.Unlock()
	for _, target := range changed {
		g.options.Changed(target)
	}
}

func (g *Guard) ended(holds []ledger.Held) {
	var targets []state.ClusterName
	for _, h := range holds {
		g.options.Ended(h)
		targets = append(targets, h.Target())
	}
	g.show(targets...)
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
