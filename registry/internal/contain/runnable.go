// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"runtime/pprof"
	"slices"

	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// warmup is a controller of controller-runtime: Warmup starts the sources, and returns when they have delivered, by
// which the app knows that the controller is ready.
type warmup interface {
	Warmup(ctx context.Context) error
}

type runnable struct {
	manager.Runnable
	guard *Container
	// isCache: it needs no leader election unless it says so. Controllers can have sources in it, and an app takes over only when all
	// sources have delivered, so it does not wait for the gate.
	isCache bool
}

var _ manager.LeaderElectionRunnable = (*runnable)(nil)

// Start waits for the gate if the runnable needs leader election, and ends with it. Errors and panics name the module.
func (c *runnable) Start(ctx context.Context) error {
	work := func(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }
	switch {
	case c.NeedLeaderElection():
		return c.guard.App.Gate.run(ctx, work)
	case c.isCache:
		return c.guard.App.Gate.runEarly(ctx, work)
	}
	return work(ctx)
}

// The default of controller-runtime is true.
func (c *runnable) NeedLeaderElection() bool {
	if r, ok := c.Runnable.(manager.LeaderElectionRunnable); ok {
		return r.NeedLeaderElection()
	}
	return !c.isCache
}

// run gives the goroutines of f labels in profiles, and contexts that lead CountPanic to the module.
func (c *runnable) run(ctx context.Context, f func(context.Context) error) (err error) {
	g, returned := c.guard, false
	defer func() {
		if !returned {
			g.Fail(ErrGoexit)
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

func (g *Container) labels() []string {
	return slices.Concat(g.App.Labels, []string{telemetry.ModuleLabel, g.Module})
}

// controllerRunnable gives the Controller to the contexts of Warmup and Start: the manager calls each in a goroutine,
// and the sources start in whichever comes first.
type controllerRunnable struct {
	runnable
	warmer warmup
	known  *cache.Controller
}

func (c *controllerRunnable) Start(ctx context.Context) error {
	return c.runnable.Start(cache.WithController(ctx, c.known))
}

// Warmup ends its context when the gate closes: if Warmup starts the sources, they and the queue live in that, and the
// workers end only with the queue.
func (c *controllerRunnable) Warmup(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(c.guard.App.Gate.Context, cancel)
	c.known.Begin()
	err := c.run(cache.WithController(ctx, c.known), c.warmer.Warmup)
	if err == nil && ctx.Err() == nil {
		c.guard.App.ControllerSynced(c.guard.Module, c.known)
	}
	return err
}

type withCache interface{ GetCache() ctrlcache.Cache }

// clusterRunnable is started by the manager with its own cache, before everything else.
type clusterRunnable struct {
	runnable
	withCache
}

func (c *clusterRunnable) Start(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }

func (c *clusterRunnable) NeedLeaderElection() bool { return false }
