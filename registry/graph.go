// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"slices"

	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/app"
)

// appGraph describes the graph of an app: the values that the app provides, and each module in a scope of its own.
type appGraph struct {
	modules  catalog
	choices  []choice
	shared   []Shared
	status   Status
	quote    Quoter
	hubCache client.Reader
}

// options returns the options of the graph. The epoch is the zero Epoch if the graph is only checked.
func (g appGraph) options(e *app.Epoch) fx.Option {
	options := []fx.Option{
		e.Options(),
		fx.Provide(func() values { return g.values(e) }),
		shareOnce(g.shared),
	}
	for _, m := range g.choices {
		if m.options.Remote != nil {
			options = append(options, app.Scope(&e.Life, m.name, nil, g.modules.configFor(m), m.options.Remote))
		}
	}
	return fx.Options(append(options, fx.Invoke(func(s cleanupSteps) { e.SetSteps(s.convert()) }))...)
}

func (g appGraph) values(e *app.Epoch) values {
	made := e.Values()
	mgr := made.Manager
	return values{
		Name: e.Name, ClusterName: string(e.Name), Status: g.status,
		Manager: mgr, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Cluster: mgr, Cache: mgr.GetCache(), Config: made.Config,
		Scheme: mgr.GetScheme(), RESTMapper: mgr.GetRESTMapper(),
		EventRecorder: e.Events(), Logger: e.Log, Quote: g.quote, Metrics: e.Collectors,
		HubClient: made.HubClient, HubCache: g.hubCache,
	}
}

// cleanupSteps are the steps that the modules have provided with AsCleanup.
type cleanupSteps struct {
	fx.In

	Steps []CleanupStep `group:"clusterfx-cleanup"`
}

func (s cleanupSteps) convert() []app.CleanupStep {
	var steps []app.CleanupStep
	for _, one := range s.Steps {
		steps = append(steps, app.CleanupStep(one))
	}
	return steps
}

// configFor returns the option that provides a module's configuration. If several overrides together make it invalid,
// the constructor that asks for it fails.
func (all catalog) configFor(c choice) fx.Option {
	known := all.find(c.name)
	config, _ := known.options.Config.decode(known.layers(c.overrides)...) // the option returns the error again
	return config
}

// AppOptions returns the options of the App of a remote with these modules, for tools that inspect its graph without
// a remote. They do not include the values that hub parts share. An App cannot be built from them: its values are
// empty.
func AppOptions(modules ...Module) fx.Option {
	var g appGraph
	for _, m := range modules {
		g.modules = append(g.modules, entry{Module: m})
		g.choices = append(g.choices, choice{Module: m})
	}
	return g.options(&app.Epoch{})
}

// validate checks the graph of every module alone, and the graph of all modules together.
func (all catalog) validate(shared []Shared) error {
	var choices []choice
	for _, one := range all {
		if err := all.complete(one.Module, shared); err != nil {
			return fmt.Errorf("module %q: %w", one.name, err)
		}
		choices = append(choices, choice{Module: one.Module})
	}
	if err := fx.ValidateApp(all.unbuilt(choices, shared)); err != nil {
		return fmt.Errorf("the modules do not work together: %w", err)
	}
	return nil
}

// complete returns the errors in the graph of a module alone.
func (all catalog) complete(m Module, shared []Shared) error {
	return fx.ValidateApp(all.unbuilt([]choice{{Module: m}}, shared))
}

// unbuilt returns the options of a graph in which every hub part shares the values that it declares.
func (all catalog) unbuilt(choices []choice, shared []Shared) fx.Option {
	stubs := slices.Clone(shared)
	for _, one := range all {
		stubs = append(stubs, one.shares...)
	}
	return appGraph{modules: all, choices: choices, shared: stubs}.options(&app.Epoch{})
}

// filters returns the filters of every module in the cache of an app. A module that does not run there has the filters
// of its hub part.
func (all catalog) filters(choices []choice) []app.ModuleFilters {
	var filters []app.ModuleFilters
	for i := range all {
		m := &all[i]
		var overrides []int
		if i := slices.IndexFunc(choices, func(c choice) bool { return c.name == m.name }); i >= 0 {
			overrides = choices[i].overrides
		}
		filters = append(filters, app.ModuleFilters{Module: m.name, Filters: m.cacheFilters(m.layers(overrides))})
	}
	return filters
}

func namesOf(choices []choice) []string {
	var names []string
	for _, c := range choices {
		names = append(names, c.name)
	}
	return names
}
