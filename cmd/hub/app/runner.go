// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
)

// runner runs the hub's manager in a goroutine of its own, between fx's start and stop.
type runner struct {
	life    context.Context //nolint:containedctx // the manager's: from fx's start to its stop
	cancel  context.CancelFunc
	started atomic.Bool
	ended   chan struct{} // closed when the manager has ended
	err     error         // read it only after ended
}

func newRunner(ctx context.Context) *runner {
	r := &runner{ended: make(chan struct{})}
	r.life, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

// attach makes the manager a part of the App's life. It is invoked last, so that the manager starts
// after every hook of the modules and stops before them.
func (r *runner) attach(lifecycle fx.Lifecycle, mgr ctrl.Manager, shutdowner fx.Shutdowner) {
	lifecycle.Append(fx.StartStopHook(func() { r.start(mgr, shutdowner) }, r.stop))
}

func (r *runner) start(mgr ctrl.Manager, shutdowner fx.Shutdowner) {
	r.started.Store(true)
	go func() {
		defer close(r.ended)
		r.err = mgr.Start(r.life)
		if r.life.Err() == nil {
			_ = shutdowner.Shutdown(fx.ExitCode(1)) // It fails only for those who do not listen.
		}
	}()
}

func (r *runner) stop(ctx context.Context) error {
	r.cancel()
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the hub's manager to end: %w", context.Cause(ctx))
	}
}

// finish ends a manager that fx did not stop, as after a start that took too long, and waits for
// it. A manager that was stopped bounds its own end.
func (r *runner) finish() {
	r.cancel()
	if r.started.Load() {
		<-r.ended
	}
}

// failure returns what the manager failed with, or nil if it goes on or ended well.
func (r *runner) failure() error {
	select {
	case <-r.ended:
	default:
		return nil
	}
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("the hub's manager ended: %w", r.err)
}
