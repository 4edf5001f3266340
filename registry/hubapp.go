// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/hubpart"
)

// HubPart is all that a hub part may ask for, beside fx.Shutdowner, which ends the hub. Embed it into Params, or ask by type (and
// name); unnamed is of the hub's cluster. Values end with this life of the hub part.
type HubPart struct {
	fx.In

	Registry *Registry
	// Manager runs controllers and other runnables.
	Manager ctrl.Manager
	// Client reads from the part's cache, APIReader from the hub's API server.
	Client    client.Client
	APIReader client.Reader `name:"api-reader"`
	Cluster   cluster.Cluster
	Cache     cache.Cache
	Config    *rest.Config
	// Scheme accepts further kinds in an invoke. All apps know kinds that are added when the hub starts.
	Scheme        *runtime.Scheme
	RESTMapper    meta.RESTMapper
	EventRecorder events.EventRecorder
	Logger        logr.Logger
	// Metrics unregisters every collector when the hub part ends.
	Metrics     prometheus.Registerer
	Traces      trace.TracerProvider
	SetDegraded SetDegraded
	// Deletes is for deletes of the module that are no requests to an API server.
	Deletes deletes.Limiter
	Options Options
}

// SetDegraded reports that a hub part lacks something outside of the hub. The reason is in CamelCase, the message names problem
// and response. Both appear in Registry.HubParts, log and metrics, and /readyz?verbose has the reason. The hub stays ready. An
// empty reason, or the end of this life, ends it. A call is cheap if it changes nothing.
type SetDegraded func(reason, message string)

// HubPartOptions are what the program gives to the hub parts of modules.
type HubPartOptions struct {
	Provide fx.Option // Provide goes into the App of every hub part, beside the values of HubPart. Default: none.
	// Manager returns options of a part's manager; Cache, Client and NewClient are used. Default: controller-runtime's.
	Manager func() ctrl.Options
	// Once is for hub parts that run Once, WithRemotes for the others: its turn must begin before this replica has remotes, and end
	// after it has none. Default: nil, such hub parts run all the time.
	Once, WithRemotes Turn
}

type partValues struct {
	fx.Out

	Registry      *Registry
	Manager       ctrl.Manager
	Client        client.Client
	APIReader     client.Reader `name:"api-reader"`
	Cluster       cluster.Cluster
	Cache         cache.Cache
	Config        *rest.Config
	Scheme        *runtime.Scheme
	RESTMapper    meta.RESTMapper
	EventRecorder events.EventRecorder
	Logger        logr.Logger
	Metrics       prometheus.Registerer
	Traces        trace.TracerProvider
	SetDegraded   SetDegraded
	Deletes       deletes.Limiter
	Options       Options
}

type partGiven struct {
	fx.In

	Shared     []Shared     `group:"clusterfx-shared"`
	Middleware []Middleware `group:"clusterfx-middleware"`
}

// errDeclared ends an App that is built only to find the types that it shares.
var errDeclared = errors.New("the types that the module shares are known")

// declaredBy returns the types that a hub part shares, without values. It calls no function of the module.
func declaredBy(m *catalog.Module) ([]Shared, error) {
	if m.Hub == nil {
		return nil, nil
	}
	var found []Shared
	asks := fx.Invoke(func(in declarations) error { // The first invoke: fx calls none after one that fails.
		found = in.Declared
		return errDeclared
	})
	if err := fx.New(fx.NopLogger, fx.Module("declared", asks), fx.Module(m.Name, m.Hub)).Err(); !errors.Is(err, errDeclared) {
		return nil, err
	}
	return slices.SortedFunc(slices.Values(found), func(a, b Shared) int { return cmp.Compare(a.String(), b.String()) }), nil
}

type declarations struct {
	fx.In

	Declared []Shared `group:"clusterfx-shared-types"`
}

// hubGraph is the graph of a hub part. It receives the values that the hub part gives to apps.
type hubGraph struct {
	entry      *catalog.Item
	modules    catalog.Catalog
	options    Options
	log        logr.Logger
	shutdowner fx.Shutdowner
	registry   *Registry // the handle of the module

	given partGiven // set when the graph is built
}

// fx has a Life around the zero app.Life if the graph is only checked.
func (g *hubGraph) fx(l *hubpart.Run) fx.Option {
	var scope []fx.Option
	if g.shutdowner != nil {
		scope = append(scope, fx.Decorate(func(fx.Shutdowner) fx.Shutdowner { return g.shutdowner }))
	}
	for _, other := range g.modules {
		if other.ForHubParts != nil {
			scope = append(scope, other.ForHubParts)
		}
	}
	options := []fx.Option{
		l.GraphOptions(),
		fx.Provide(func() partValues { return g.values(l) }),
	}
	if g.options.HubParts.Provide != nil {
		options = append(options, g.options.HubParts.Provide)
	}
	return fx.Options(append(options,
		l.Scope(g.entry.Name, append(scope, g.entry.Hub)...),
		fx.Invoke(func(given partGiven) { g.given = given }))...)
}

func (g *hubGraph) values(l *hubpart.Run) partValues {
	mgr := l.Manager
	traces := g.options.Traces
	if traces == nil {
		traces = noop.NewTracerProvider()
	}
	return partValues{
		Registry: g.registry, Manager: mgr, Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Cluster: mgr, Cache: mgr.GetCache(), Config: rest.CopyConfig(l.Contained.Config), Scheme: l.Scheme,
		RESTMapper: mgr.GetRESTMapper(), EventRecorder: &l.Events, Logger: g.log, Metrics: l.Collectors, Traces: traces,
		SetDegraded: l.SetDegraded, Deletes: l.Limiter(nil), Options: g.options,
	}
}

// HubPartGraph is for tools; it uses Modules, ModuleConfigs and HubParts. No App can be built from it: values are empty.
func (o Options) HubPartGraph(m Module) fx.Option {
	g := &hubGraph{entry: &catalog.Item{Module: m.inner}, options: o, shutdowner: noShutdowner{}}
	for _, one := range inCatalog(o.Modules) {
		g.modules = append(g.modules, catalog.Item{Module: one})
	}
	return g.fx(&hubpart.Run{Life: &app.Life{}})
}

type noShutdowner struct{}

func (noShutdowner) Shutdown(...fx.ShutdownOption) error { return nil }

func validateHubParts(o Options, modules catalog.Catalog) error {
	var problems []error
	for _, e := range modules {
		if e.Hub == nil {
			continue
		}
		if err := fx.ValidateApp(o.HubPartGraph(Module{inner: e.Module})); err != nil {
			problems = append(problems, fmt.Errorf("module %q: its hub part: %w", e.Name, err))
		}
	}
	return errors.Join(problems...)
}
