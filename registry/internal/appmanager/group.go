// SPDX-License-Identifier: Apache-2.0

package appmanager

import (
	"context"
	"runtime/pprof"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// group has runnables that start together and end together. It consists of values: each runnable has a goroutine until
// it returns, and the group has none. All methods but wait are called under the lock of the manager.
type group struct {
	waiting []member // added before start
	// ctx is the context of the runnables, and cancel ends it. They are nil before start.
	ctx     context.Context //nolint:containedctx // Runnables that are added later get it, too.
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// member is a runnable of a group. ready returns true when the runnable is ready, and false if it does not become ready
// before the context ends; it is nil for a runnable that is ready once it runs.
type member struct {
	manager.Runnable
	ready func(context.Context) bool
}

// add adds a runnable. If the group has started, the runnable starts at once. failed is called with the error of the
// runnable.
func (g *group) add(one member, failed func(error)) {
	if g.cancel == nil {
		g.waiting = append(g.waiting, one)
		return
	}
	g.run(one, failed)
}

// start starts the runnables that have been added. Their contexts have the values of base, and end when the group ends.
// It returns those that are not ready once they run.
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

// end ends the contexts of the runnables. No runnable is added after that.
func (g *group) end() {
	g.waiting = nil
	if g.cancel != nil {
		g.cancel()
	}
}

// wait returns when all runnables have returned. The group has ended.
func (g *group) wait() { g.running.Wait() }
