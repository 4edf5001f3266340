// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"

	"go.uber.org/fx"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/hubobjects"
	"github.com/clusterfx/clusterfx/registry/internal/actor"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

type appGraph struct {
	modules  []catalog.Choice
	shared   []catalog.Shared
	status   Status
	facts    Facts
	quote    kubeconfig.Quoter
	hubCache client.Reader
	hubID    string

	hubObjects *hubobjects.Pool
}

func (r *Registry) graph(s actor.Start) app.Graph {
	s.Status.Labels = nil // Those of now are in the Facts.
	return appGraph{
		modules: s.Selection.Run, shared: slices.Concat(r.shared, s.Selection.Offered.Values()),
		status: s.Status, facts: Facts{s.Facts}, quote: func(text string) string { return r.Quote(s.Status.Name, text) },
		hubCache: r.hubCache, hubID: r.hubID, hubObjects: r.hubObjects,
	}.options
}

// options has the zero Life if the graph is only checked.
func (g appGraph) options(l *app.Life) fx.Option {
	options := []fx.Option{
		l.GraphOptions(),
		fx.Provide(func() values { return g.values(l) }),
		catalog.ProvideShared(g.shared),
	}
	for _, m := range g.modules {
		if m.Remote != nil {
			options = append(options, l.Scope(m.Name, g.hubValuesOf(l, m), m.ProvideConfig(), m.Remote))
		}
	}
	return fx.Options(append(options, fx.Invoke(func(s cleanupSteps) { l.SetSteps(s.convert()) }))...)
}

type hubValues struct {
	fx.Out

	Client  client.Client `name:"manage-client"`
	Objects *hubobjects.Source
}

// hubValuesOf decorates the values that lead to the hub as the module's.
func (g appGraph) hubValuesOf(l *app.Life, m catalog.Choice) fx.Option {
	type in struct {
		fx.In

		Client client.Client `name:"manage-client"`
	}
	return fx.Decorate(func(app in) hubValues {
		return hubValues{Client: l.Guard(m.Name).Client(app.Client), Objects: g.hubObjectsOf(l, m)}
	})
}

func (g appGraph) values(l *app.Life) values {
	mgr := l.Manager
	return values{
		Name: l.Name, ClusterName: string(l.Name), Status: g.status, Facts: g.facts,
		Manager: mgr, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Cluster: mgr, Cache: mgr.GetCache(), Config: l.Contained.Config, Namespaces: l.Desired.Namespaces,
		Scheme: mgr.GetScheme(), RESTMapper: mgr.GetRESTMapper(),
		EventRecorder: &l.Events, Logger: l.Log, Quote: g.quote, Metrics: l.Collectors,
		HubID: g.hubID, HubClient: l.HubClient, HubCache: g.hubCache, HubObjects: &hubobjects.Source{},
		Deletes: l.Limiter(nil),
	}
}

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

// AppGraph returns the App's options for tools, without values that hub parts share. No App can be built: values are empty.
func (o Options) AppGraph(modules ...Module) fx.Option {
	var g appGraph
	for _, m := range inCatalog(modules) {
		g.modules = append(g.modules, catalog.Choice{Module: m})
	}
	return g.options(&app.Life{})
}

// checkGraph builds nothing.
func checkGraph(modules []catalog.Choice, shared []catalog.Shared) error {
	return fx.ValidateApp(appGraph{modules: modules, shared: shared}.options(&app.Life{}))
}
