// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

var (
	errStopped = errors.New("the manager is stopping or has stopped, and starts no further runnable")
	errStarted = errors.New("the manager was started before; make another one")
)

// Start runs the runnables until one fails, with its error, or ctx ends, with nil. It returns when all of them have
// returned. A manager starts once.
func (m *Manager) Start(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var first atomic.Pointer[error]
	fail := func(err error) {
		switch {
		case ctx.Err() == nil && first.CompareAndSwap(nil, &err):
			end()
		case !errors.Is(err, context.Canceled): // the end of a runnable that has to end
			m.log.Error(err, "A runnable failed while the manager was stopping")
		}
	}
	if err := m.begin(fail); err != nil {
		return err
	}
	m.startAll(ctx)
	<-ctx.Done()
	m.stop()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *Manager) begin(fail func(error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started {
		return errStarted
	}
	m.started, m.fail = true, fail
	return nil
}

// startAll returns early when ctx ends, but starts the cluster in any case: the end of the cluster stops the recorder
// of events, which may have been used before.
func (m *Manager) startAll(ctx context.Context) {
	m.start(ctx, stepServers)
	m.start(ctx, stepWebhooks)
	if err := m.groups[stepCaches].awaitReady(ctx, m.start(ctx, stepCaches)); err != nil {
		m.fail(err)
	}
	for _, next := range []step{stepUnelected, stepWarmups, stepElected} {
		if ctx.Err() != nil {
			return
		}
		m.start(ctx, next)
	}
	close(m.elected)
}

func (m *Manager) start(ctx context.Context, s step) (unready []member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups[s].start(ctx, m.fail)
}

func (g *group) awaitReady(ctx context.Context, unready []member) error {
	results := make(chan error, len(unready))
	for _, one := range unready {
		g.running.Go(func() {
			var err error
			if !one.ready(ctx) {
				err = fmt.Errorf("the cache of a %T has not synced", one.Runnable)
			}
			results <- err
		})
	}
	for range unready {
		select {
		case err := <-results:
			if err != nil && ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (m *Manager) stop() {
	m.mu.Lock()
	m.stopped = true // From now on nothing else changes the groups.
	m.mu.Unlock()
	// A controller has a lock while it starts its sources, in Warmup or in Start, and the other call waits for it. So
	// nothing waits for the end of a Warmup before each Start has to end.
	m.groups[stepWarmups].end()
	m.groups[stepUnelected].end()
	m.groups[stepUnelected].wait()
	m.groups[stepElected].end()
	m.groups[stepElected].wait()
	m.groups[stepWarmups].wait()
	for _, last := range []step{stepCaches, stepWebhooks, stepServers} {
		m.groups[last].end()
		m.groups[last].wait()
	}
}

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
