// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
)

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

// attach comes last, so that the manager starts after the modules' hooks and stops before them.
func (r *runner) attach(lifecycle fx.Lifecycle, mgr ctrl.Manager) {
	lifecycle.Append(fx.StartStopHook(func() { r.start(mgr) }, r.stop))
}

func (r *runner) start(mgr ctrl.Manager) {
	r.started.Store(true)
	go func() {
		defer close(r.ended)
		r.err = mgr.Start(r.life)
	}()
}

func (r *runner) stop(ctx context.Context) error {
	r.cancel()
	if !r.started.Load() {
		return nil
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the hub's manager to end: %w", context.Cause(ctx))
	}
}

// failure is nil if the manager runs or ended without one.
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
