// SPDX-License-Identifier: Apache-2.0

package appmanager

import (
	"context"
	"runtime/pprof"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// group has runnables that start and end together. Each has a goroutine until it returns, the group has none. All
// methods but wait need the lock of the manager.
type group struct {
	waiting []member // added before start
	// ctx and cancel are nil before start.
	ctx     context.Context //nolint:containedctx // Runnables that are added later get it, too.
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// member is a runnable. ready tells whether it became ready before the context ended; nil means that it is once it
// runs.
type member struct {
	manager.Runnable
	ready func(context.Context) bool
}

// add starts the runnable at once if the group has started.
func (g *group) add(one member, failed func(error)) {
	if g.cancel == nil {
		g.waiting = append(g.waiting, one)
		return
	}
	g.run(one, failed)
}

// start gives contexts with the values of base, which end with the group. It returns those that are not ready once they
// run.
func (g *group) start(base context.Context, failed func(error)) (unready []member) {
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(base))
	for _, one := range g.waiting {
		g.run(one, failed)
		if one.ready != nil {
			unready = append(unready, one)
		}
	}
	g.waiting = nil
	return unready
}

func (g *group) run(one member, failed func(error)) {
	ctx := g.ctx
	g.running.Go(func() {
		pprof.SetGoroutineLabels(ctx) // The goroutine that adds a runnable may have labels of its own.
		if err := one.Start(ctx); err != nil {
			failed(err)
		}
	})
}

// No runnable may be added after end.
func (g *group) end() {
	g.waiting = nil
	if g.cancel != nil {
		g.cancel()
	}
}

func (g *group) wait() { g.running.Wait() }
