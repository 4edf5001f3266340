// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/graph"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
)

// look is a look at the graphs of the hub's App and of the app of a remote.
type look struct {
	*session
	remote  access.RemoteFlags
	timed   bool   // the Apps are built besides
	name    string // of the graph
	cluster string // whose app it is about; empty for one with all modules

	registry *registry.Registry // of the hub's App, if it was built
	ends     []func()           // of what was built
}

// hub returns the graph of the hub's App.
func (l *look) hub() (*graph.Graph, error) {
	config := &rest.Config{}
	if l.timed {
		var err error
		if config, err = l.session.hub.Config(); err != nil {
			return nil, err
		}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return onlyReads{next} })
	}
	parts, err := l.program.partsToSee(config)
	if err != nil {
		return nil, err
	}
	g, err := l.program.graphOfHub(l.name, parts)
	if err != nil || !l.timed {
		return g, err
	}
	if err := timeGraph(g, parts, fx.Populate(&l.registry)); err != nil {
		return g, err
	}
	for _, m := range l.program.modules {
		if !m.HasHubPart() {
			continue
		}
		part, end, err := l.registry.RehearsePart(m)
		if err != nil {
			return nil, err
		}
		l.ends = append(l.ends, end)
		if err := timeGraph(g, part); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// end releases what was built.
func (l *look) end() {
	for _, end := range l.ends {
		end()
	}
}

// app returns the graph of the app of the Cluster, or, without one, of an app with all modules. hub is that of
// the hub's App.
func (l *look) app(ctx context.Context, hub *graph.Graph) (*graph.Graph, error) {
	title, modules := "app", l.program.modules
	if l.cluster != "" {
		c, err := l.session.hub.Hub()
		if err != nil {
			return nil, err
		}
		var cluster hubv1.Cluster
		if err := c.Get(ctx, client.ObjectKey{Name: l.cluster}, &cluster); err != nil {
			return nil, c.Explain(err)
		}
		title = "app " + cluster.Name
		modules = slices.DeleteFunc(slices.Clone(modules), func(m registry.Module) bool {
			return !slices.ContainsFunc(cluster.Status.Modules, func(one hubv1.ModuleStatus) bool { return one.Name == m.Name() })
		})
	}
	if l.timed {
		return l.timedApp(title, modules)
	}
	g, err := graph.Of(title, registry.AppOptions(modules...))
	if err == nil {
		g.Provided(hub.Needed(sharedType))
	}
	return g, err
}

// timedApp returns the graph of an app that is built for the remote that the flags lead to.
func (l *look) timedApp(title string, modules []registry.Module) (*graph.Graph, error) {
	remote, err := l.remote.Remote()
	if err != nil {
		return nil, err
	}
	options, end, err := l.registry.Rehearsal("graph", remote.Config, modules...)
	if err != nil {
		return nil, remote.Explain(err)
	}
	defer end()
	g, err := graph.Of(title, options)
	if err != nil {
		return nil, err
	}
	return g, timeGraph(g, options)
}

// timeGraph builds the App of a graph, and enters what took how long.
func timeGraph(g *graph.Graph, options ...fx.Option) error {
	watch := &graph.Stopwatch{}
	options = append(options, fx.WithLogger(func() fxevent.Logger { return watch }))
	if err := fx.New(options...).Err(); err != nil {
		return fmt.Errorf("build the %s: %w", g.Title, cause(err))
	}
	g.Time(watch)
	return nil
}

// partsToSee returns what the hub's App consists of, for somebody who looks at it and does not run it.
func (p program) partsToSee(config *rest.Config) (fx.Option, error) {
	o, err := Options{Config: config, Modules: p.modules}.withDefaults()
	if err != nil {
		return nil, err
	}
	o.Registry.Gate = func() error { return errOnlySeen }
	return parts(o, o.newManagerToSee), nil
}

// newManagerToSee returns a manager that is not started.
func (o Options) newManagerToSee() (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	skip := true
	return ctrl.NewManager(o.Config, ctrl.Options{
		Scheme: scheme, Logger: o.Log,
		Cache:                  cache.Options{ByObject: cluster.CacheOptions(o.CredentialsNamespace)},
		Metrics:                metricsserver.Options{BindAddress: nowhere},
		HealthProbeBindAddress: nowhere,
		Controller:             ctrlconfig.Controller{SkipNameValidation: &skip},
	})
}

// errOnlySeen refuses what would change something.
var errOnlySeen = errors.New("an App that is built to be looked at changes nothing: do it in OnStart, or in a controller")

// onlyReads lets no request through that would change something.
type onlyReads struct{ next http.RoundTripper }

func (r onlyReads) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		return nil, errOnlySeen
	}
	return r.next.RoundTrip(request)
}
