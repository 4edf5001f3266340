// SPDX-License-Identifier: Apache-2.0

package appmanager

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
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
			m.options.Logger.Error(err, "A runnable failed while the manager was stopping")
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
