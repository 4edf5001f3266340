// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// appOptions are the options of the fx App of one epoch: the values that the epoch provides, and every module in a
// scope of its own, in which the logger, the manager and the lifecycle know that the module uses them.
//
// fx builds the graph and calls the invokes; it runs nothing. The epoch runs the hooks (see hooks), and decides the
// order: hooks of the modules, then the manager.
func appOptions(e *epoch, modules []choice) []fx.Option {
	options := []fx.Option{
		fx.RecoverFromPanics(),
		fx.WithLogger(func() fxevent.Logger { return &e.graph }),
		fx.Provide(func() values { return e.values }),
		shareOnce(slices.Concat(e.shared, e.offered.values())),
	}
	for _, m := range modules {
		if m.options.Remote != nil {
			options = append(options, fx.Module(m.name, inScopeOf(&e.lifetime, m.name), e.modules.configFor(m), m.options.Remote))
		}
	}
	return append(options, fx.Invoke(func(s cleanupSteps) { e.takeSteps(s.Steps) }))
}

// cleanupSteps are the steps that the modules have provided with AsCleanup.
type cleanupSteps struct {
	fx.In

	Steps []CleanupStep `group:"clusterfx-cleanup"`
}

func inScopeOf(l *lifetime, module string) fx.Option { return inScopeOfPart(l, module, nil) }

// inScopeOfPart is inScopeOf for the hub part of a module.
func inScopeOfPart(l *lifetime, module string, part *partLife) fx.Option {
	return fx.Decorate(
		func(log logr.Logger) logr.Logger { return log.WithValues("module", module) },
		func(mgr ctrl.Manager, log logr.Logger) (ctrl.Manager, error) {
			if part != nil {
				mgr = &partManager{Manager: mgr, part: part}
			}
			return contain.NewManager(l.contained, mgr, module, log)
		},
		func(_ client.Client, mgr ctrl.Manager) client.Client { return mgr.GetClient() },
		func(_ cluster.Cluster, mgr ctrl.Manager) cluster.Cluster { return mgr },
		func(_ cache.Cache, mgr ctrl.Manager) cache.Cache { return mgr.GetCache() },
		func(metrics prometheus.Registerer, log logr.Logger) prometheus.Registerer {
			return contain.NewRegisterer(metrics, l.guard(module, log))
		},
		func(fx.Lifecycle) fx.Lifecycle { return lifecycle{module: module, hooks: &l.hooks} },
	)
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
	e := &epoch{lifetime: lifetime{environment: &environment{}}}
	choices := make([]choice, 0, len(modules))
	for _, m := range modules {
		e.modules = append(e.modules, entry{Module: m})
		choices = append(choices, choice{Module: m})
	}
	return fx.Options(appOptions(e, choices)...)
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
	if err := fx.ValidateApp(appOptions(all.unbuilt(shared), choices)...); err != nil {
		return fmt.Errorf("the modules do not work together: %w", err)
	}
	return nil
}

// complete returns the errors in the graph of a module alone.
func (all catalog) complete(m Module, shared []Shared) error {
	return fx.ValidateApp(appOptions(all.unbuilt(shared), []choice{{Module: m}})...)
}

// unbuilt returns an epoch without values, in an environment in which every hub part shares what it declares.
func (all catalog) unbuilt(shared []Shared) *epoch {
	stubs := slices.Clone(shared)
	for _, one := range all {
		stubs = append(stubs, one.shares...)
	}
	return &epoch{lifetime: lifetime{environment: &environment{modules: all, shared: stubs}}}
}

// lifecycle is the fx.Lifecycle of one module.
type lifecycle struct {
	module string
	hooks  *hooks
}

// Append adds hooks that run when the app starts and stops.
func (l lifecycle) Append(h fx.Hook) {
	l.hooks.add(hook{module: l.module, start: h.OnStart, stop: h.OnStop})
}

// buildGraph calls the constructors that the modules' invokes need, and the invokes. It returns a failure or panic as
// an error that names the module.
func (e *epoch) buildGraph() error { return e.buildApp(appOptions(e, e.chosen)) }

// buildApp builds the App with these options. Its lifecycle is not run by fx.
func (l *lifetime) buildApp(options []fx.Option) error {
	err := fx.New(options...).Err()
	if err == nil {
		return nil
	}
	failed := &moduleError{module: l.graph.failed(), reason: state.ReasonBuildFailed, err: dig.RootCause(err)}
	if failed.module == "" {
		return fmt.Errorf("build the app: %w", failed.err)
	}
	l.moduleFailed(failed)
	return failed
}

// graphLog receives the events of fx while fx builds an app. It logs them for debugging, and keeps the name of the
// first module that failed, which fx's error does not carry.
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

// LogEvent implements fxevent.Logger.
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

// describe returns the failure for the Status from the error that ended an app.
func describe(err error) machine.Failure {
	var failed *moduleError
	if errors.As(err, &failed) {
		return machine.Failure{Module: failed.module, Reason: failed.reason, Message: state.Sanitize(failed.Error())}
	}
	var remote *remoteError
	if errors.As(err, &remote) {
		_, message := kubeconfig.Classify(err)
		return machine.Failure{Reason: state.ReasonStartFailed, Message: state.Sanitize("discover the API: " + message), OfRemote: true}
	}
	reason := state.ReasonStartFailed
	if errors.Is(err, errManagerEnded) {
		reason = state.ReasonModuleFailed
	}
	return machine.Failure{Reason: reason, Message: state.Sanitize(err.Error())}
}

// startHooks runs the modules' OnStart hooks within StartTimeout.
func (e *epoch) startHooks() error {
	ctx, cancel := context.WithTimeoutCause(e.ctx, e.limits.StartTimeout,
		fmt.Errorf("the start timeout of %s has ended", e.limits.StartTimeout))
	defer cancel()
	err := e.hooks.start(ctx)
	var failed *moduleError
	if errors.As(err, &failed) && e.ctx.Err() == nil {
		e.moduleFailed(failed)
	}
	return err
}
