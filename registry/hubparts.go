// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/hubpart"
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
		Built: func() error { return r.middleware.Add(g.given.Middleware) },
		Ready: func() {
			if shares {
				r.offer(g.entry.Name, &catalog.Offer{Life: l.Number, Shared: g.given.Shared})
			}
		},
		Ended: func() {
			if shares {
				r.offer(g.entry.Name, nil)
			}
		},
	}
}

func (r *Registry) offered() catalog.Offers { return *r.offers.Load() }

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

// HubRuns says in which replicas of a hub its hub parts run. A hub that is alone runs all of them.
//
// A hub part has one life in each turn of its replica, and otherwise its state is Standby: then requests of an earlier life that
// may change the hub fail with ErrStandby, and events are dropped.
type HubRuns string

const (
	// Once is one replica, for controllers of hub objects that need no remote. Its Registry has the remotes of that replica only.
	Once HubRuns = "Once"
	// WithRemotes is each replica that has remotes: Each, List, Follow and registry/watch have its remotes, and WithClient fails for
	// others.
	WithRemotes HubRuns = "WithRemotes"
)

// Turn says when it is this replica's turn to run hub parts. All methods may be called from any goroutine.
type Turn interface {
	// Await returns at the turn of this replica, or with ctx's cause. The returned context ends, with a cause that matches
	// ErrStandby, with the turn, not with ctx. The caller must then end its work and call ended; before that, the next turn begins
	// only if the work takes too long.
	Await(ctx context.Context) (turn context.Context, ended func(), err error)
	Check() error // Check matches ErrStandby outside of a turn. It is called before each write, and must not block.
	// Count is called before Check, and its result when the write has a response or was not sent. It must not block.
	Count() (answered func())
}

// turnOf returns nil for a hub part that runs all the time.
func (o HubPartOptions) turnOf(runs HubRuns) hubpart.Turn {
	if runs == Once {
		return o.Once
	}
	return o.WithRemotes
}

func checkHubRuns(modules catalog.Catalog) error {
	var silent []string
	var problems []error
	for i := range modules {
		e := &modules[i]
		switch runs := HubRuns(e.HubRuns); {
		case e.Hub == nil:
		case runs != Once && runs != WithRemotes:
			silent = append(silent, e.Name)
		case runs == Once && e.Shares():
			problems = append(problems, fmt.Errorf("module %q: its hub part shares values with the apps of all replicas, "+
				"so it runs in each of them; write HubRuns: registry.WithRemotes into its ModuleOptions", e.Name))
		}
	}
	if len(silent) > 0 {
		problems = append(problems, fmt.Errorf("the hub parts of these modules do not say where they run: %s; write into their "+
			"ModuleOptions HubRuns: registry.Once for controllers of objects of the hub, which run in one replica, or "+
			"HubRuns: registry.WithRemotes for hub parts that run in each replica that has remotes, each with its own",
			strings.Join(silent, ", ")))
	}
	return errors.Join(problems...)
}
