// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Errors of reconcilers, which only a queue receives.
var (
	ErrAmbiguousProvider = errAmbiguousProvider
	ErrNoProvider        = errNoProvider
)

// NewReconciler returns the reconciler that AddTo adds, for tests that call it directly.
func NewReconciler[O client.Object](h *Host[O], factories ...Factory[O]) (reconcile.Reconciler, error) {
	return newReconciler(h, factories...)
}

// TestClock is a clock that tests can advance. Its waits end once it is stopped.
type TestClock struct {
	mu      sync.Mutex
	ahead   time.Duration
	stopped context.Context //nolint:containedctx // it is the life of a process
}

// SetClock gives the host a clock that stops with ctx.
func (h *Host[O]) SetClock(ctx context.Context) *TestClock {
	c := &TestClock{stopped: ctx}
	h.clock = c
	return c
}

// Skip advances the clock by d.
func (c *TestClock) Skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *TestClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *TestClock) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(c.stopped, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
