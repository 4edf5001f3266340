// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"runtime/pprof"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// warmup is implemented by the controllers of controller-runtime: Warmup starts the sources, and returns when they have
// delivered the initial objects. By it the app knows that a controller is ready.
type warmup interface {
	Warmup(ctx context.Context) error
}

// runnable is a runnable of a module, whose failures name the module.
type runnable struct {
	manager.Runnable
	guard *Guard
}

var _ manager.LeaderElectionRunnable = (*runnable)(nil)

// Start runs the runnable, and returns its error or panic with the name of the module. A runnable that needs leader
// election waits until the gate opens, and ends when the gate closes.
func (c *runnable) Start(ctx context.Context) error {
	work := func(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }
	if !c.NeedLeaderElection() {
		return work(ctx)
	}
	return c.guard.App.Gate.run(ctx, work)
}

// NeedLeaderElection returns the result of the runnable; the default of controller-runtime is true.
func (c *runnable) NeedLeaderElection() bool {
	if r, ok := c.Runnable.(manager.LeaderElectionRunnable); ok {
		return r.NeedLeaderElection()
	}
	return true
}

// run calls f. In profiles the goroutines that f starts have labels with the names of the module and its App, and
// contexts derived from the context of f lead CountPanic to the module.
func (c *runnable) run(ctx context.Context, f func(context.Context) error) (err error) {
	g, returned := c.guard, false
	defer func() {
		if !returned {
			g.fail(ErrGoexit)
		}
	}()
	pprof.Do(context.WithValue(ctx, guardKey{}, g), pprof.Labels(g.labels()...), func(ctx context.Context) {
		err = panics.Catch(func() error { return f(ctx) })
	})
	returned = true
	if err == nil {
		return nil
	}
	return g.App.Failed(g.Module, err)
}

// labels returns the labels of the module's goroutines in profiles, as keys and values.
func (g *Guard) labels() []string {
	return slices.Concat(g.App.Labels, []string{telemetry.ModuleLabel, g.Module})
}

// controllerRunnable is a controller of a module. The manager calls Warmup and Start in goroutines of their own, and the
// controller starts its sources in the first call that it receives. So both contexts have the Controller of the sources.
type controllerRunnable struct {
	runnable
	warmer warmup
	known  *Controller
}

// Start runs the controller.
func (c *controllerRunnable) Start(ctx context.Context) error {
	return c.runnable.Start(context.WithValue(ctx, controllerKey{}, c.known))
}

// Warmup waits until the controller has received its initial objects. If Warmup starts the sources, they and the queue
// live in its context, and the workers end only with the queue; so the context ends when the gate closes.
func (c *controllerRunnable) Warmup(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(c.guard.App.Gate.Context, cancel)
	c.known.begin()
	c.guard.warnOfUnsupervised()
	err := c.run(context.WithValue(ctx, controllerKey{}, c.known), c.warmer.Warmup)
	if err == nil && ctx.Err() == nil {
		c.guard.App.ControllerSynced(c.guard.Module, c.known)
	}
	return err
}

// warnOfUnsupervised logs, once, the controllers of the module that are not supervised.
func (g *Guard) warnOfUnsupervised() {
	if names := g.App.TakeUnsupervised(g.Module); len(names) > 0 {
		g.log.Info("Controllers are not supervised; build them with registry.ControllerManagedBy", "controllers", names)
	}
}
