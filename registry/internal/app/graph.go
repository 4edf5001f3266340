// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/state"
)

// GraphOptions returns the options that the graph of every App has: fx logs to the Life, and contains panics.
func (l *Life) GraphOptions() fx.Option {
	return fx.Options(fx.RecoverFromPanics(), fx.WithLogger(func() fxevent.Logger { return &l.graph }))
}

// Scope returns the options of a module in a scope whose logger, manager and lifecycle know the module. The zero Life
// only checks the graph.
func (l *Life) Scope(module string, options ...fx.Option) fx.Option {
	scope := fx.Decorate(func(in scoped) (scopedOut, error) {
		log := in.Logger.WithValues("module", module)
		own, err := contain.NewManager(l.Contained, in.Manager, module, log)
		if err != nil {
			return scopedOut{}, err
		}
		guard := contain.NewContainer(l.Contained, module, log)
		return scopedOut{
			Logger: log, Manager: own, Client: own.GetClient(), Config: own.GetConfig(), Cluster: own, Cache: own.GetCache(),
			Metrics:   contain.NewRegisterer(in.Metrics, guard),
			Deletes:   l.Limiter(guard),
			Lifecycle: lifecycle{module: module, hooks: &l.hooks},
		}, nil
	})
	return fx.Module(module, append([]fx.Option{scope}, options...)...)
}

// scoped are the values of an App from which those of a module, scopedOut, are made. One function makes them all: each
// decoration costs an App some microseconds and kilobytes.
type scoped struct {
	fx.In

	Logger  logr.Logger
	Manager ctrl.Manager
	Metrics prometheus.Registerer
}

type scopedOut struct {
	fx.Out

	Logger    logr.Logger
	Manager   ctrl.Manager
	Client    client.Client
	Config    *rest.Config
	Cluster   cluster.Cluster
	Cache     cache.Cache
	Metrics   prometheus.Registerer
	Deletes   deletes.Limiter
	Lifecycle fx.Lifecycle
}

type lifecycle struct {
	module string
	hooks  *hooks
}

func (l lifecycle) Append(h fx.Hook) {
	l.hooks.add(hook{module: l.module, start: h.OnStart, stop: h.OnStop})
}

// BuildGraph calls the invokes and the constructors that they need. Its error, also for a panic, names the module. fx
// does not run the lifecycle.
func (l *Life) BuildGraph(options fx.Option) error {
	err := fx.New(options).Err()
	if err == nil {
		return nil
	}
	failed := &ModuleError{Module: l.graph.failed(), Reason: state.ReasonBuildFailed, Err: dig.RootCause(err)}
	if failed.Module == "" {
		return fmt.Errorf("build the app: %w", failed.Err)
	}
	l.moduleFailed(failed)
	return failed
}

// graphLog logs fx's events for debugging, and keeps the first failed module, which fx's error does not carry.
type graphLog struct {
	log logr.Logger

	mu       sync.Mutex // protects the fields
	culprit  string     // the first module that failed
	invoking string     // the module whose invoke runs
}

func (g *graphLog) failed() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.culprit
}

func (g *graphLog) current() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.invoking
}

func (g *graphLog) note(event fxevent.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if invoking, ok := event.(*fxevent.Invoking); ok {
		g.invoking = invoking.ModuleName
	}
	if module := failedModule(event); g.culprit == "" {
		g.culprit = module
	}
}

func (g *graphLog) LogEvent(event fxevent.Event) {
	g.note(event)
	if g.log.V(1).Enabled() {
		events := fxevent.SlogLogger{Logger: slog.New(logr.ToSlogHandler(g.log.V(1)))}
		events.UseErrorLevel(slog.LevelInfo)
		events.LogEvent(event)
	}
}

func failedModule(event fxevent.Event) string {
	name, err := "", error(nil)
	switch e := event.(type) {
	case *fxevent.Provided:
		name, err = e.ModuleName, e.Err
	case *fxevent.Supplied:
		name, err = e.ModuleName, e.Err
	case *fxevent.Replaced:
		name, err = e.ModuleName, e.Err
	case *fxevent.Decorated:
		name, err = e.ModuleName, e.Err
	case *fxevent.Run:
		name, err = e.ModuleName, e.Err
	case *fxevent.Invoked:
		name, err = e.ModuleName, e.Err
	}
	if err == nil {
		return ""
	}
	return name
}
