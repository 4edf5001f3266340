// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"net/http"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/hubpart"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func newHubParts(p params, r *Registry, o Options) (*hubpart.Supervisor, error) {
	if err := validateHubParts(o, r.remotes.Modules); err != nil {
		return nil, fmt.Errorf("check the modules: %w", err)
	}
	log := RedactingLogger(p.Log, r.remotes.Secrets)
	var modules []hubpart.Module
	for i := range r.remotes.Modules {
		e := &r.remotes.Modules[i]
		if e.Hub == nil {
			continue
		}
		rules, _ := e.AllRules() // newCatalog has reported the error.
		declared := declarationOf(e.Module, rules)
		g := hubGraph{entry: e, modules: r.remotes.Modules, options: o, log: log, shutdowner: p.Shutdowner}
		modules = append(modules, hubpart.Module{
			Name: e.Name, Rules: declared.hub, Namespaces: e.HubNamespaces,
			Turn: o.HubParts.turnOf(HubRuns(e.HubRuns)),
			Undeclared: func(_ string, refused *http.Request) (string, state.Problem) {
				return declared.undeclared(true, refused)
			},
			Begin: func(l *hubpart.Run) hubpart.Callbacks { return r.beginHubPart(l, g) },
		})
	}
	return hubpart.New(hubpart.Options{
		Host: r.remotes.Apps, Manager: p.Manager, Log: log, Monitor: o.Monitor, NextEpoch: r.remotes.NextEpoch,
		Explain: r.remotes.Explain, Pauses: r.remotes.Connections.Pauses,
		ManagerOptions: o.HubParts.Manager, Modules: modules,
	}), nil
}

// beginHubPart completes g, which has no handle yet.
func (r *Registry) beginHubPart(l *hubpart.Run, g hubGraph) hubpart.Callbacks {
	g.registry = &Registry{core: r.core, by: l.Guard()}
	shares := g.entry.Shares()
	return hubpart.Callbacks{
		Graph: func() fx.Option { return g.fx(l) },
		// The middleware stays in force when the part ends, and while it is started again.
		Built: func() error { return r.remotes.Middleware.Add(middlewareOf(g.given.Middleware)) },
		Ready: func() {
			if shares {
				r.offer(g.entry.Name, &catalog.Offer{Life: l.Number, Shared: sharedValues(g.given.Shared)})
			}
		},
		Ended: func() {
			if shares {
				r.offer(g.entry.Name, nil)
			}
		},
	}
}

func (r *Registry) offered() catalog.Offers {
	if now := r.offers.Load(); now != nil {
		return *now
	}
	return nil
}

// offer records what a hub part shares, or nil for nothing, and makes every actor choose its modules again.
func (r *Registry) offer(module string, o *catalog.Offer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.offered().With(module, o)
	r.offers.Store(&next)
	for _, a := range r.actors {
		a.OffersChanged()
	}
}

// HubParts returns the state of every hub part, in the order of the modules; nothing for a registry without FX.
func (r *Registry) HubParts() []state.HubPartStatus {
	parts := r.parts.Load()
	if parts == nil {
		return nil
	}
	return parts.List()
}

func (r *Registry) hubPartStates() []telemetry.HubPart {
	var all []telemetry.HubPart
	for _, one := range r.HubParts() {
		all = append(all, telemetry.HubPart{Module: one.Module, State: one.State, Zombies: one.Zombies})
	}
	return all
}
