// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/state"
)

// hooks are the lifecycle hooks of one app's modules. They replace fx's own lifecycle, which
// cannot be used for an App inside an App: a start that times out never runs the stop hooks of
// what had started, a Stop with an expired context runs nothing and cannot be repeated, and a
// panic in a hook ends the process (uber-go/fx#1035; fx v1.24, internal/lifecycle). Each module
// gets an fx.Lifecycle that appends here (see lifecycle), so that a failing hook is known to be
// its module's.
type hooks struct {
	log     logr.Logger
	timeout time.Duration // of one OnStop hook that is run late

	running sync.WaitGroup // hooks, also those that nobody waits for any more

	mu      sync.Mutex // protects the fields; not held while a hook runs
	list    []hook
	started int // how many of the list have started
	ended   bool
}

// hook is what a module wants done at the start and the end of its app. Either may be nil.
type hook struct {
	module      string
	start, stop func(context.Context) error
}

func (h *hooks) add(one hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, one)
}

// start runs the OnStart hooks in the order of their appending until one fails or ctx ends. It
// never waits for longer than ctx; a hook that outlives it and then succeeds after all is
// stopped at once.
func (h *hooks) start(ctx context.Context) error {
	for {
		one, ok := h.next()
		if !ok {
			return nil
		}
		if err := h.run(ctx, one.start, func() { h.stopLate(ctx, one) }); err != nil {
			return &moduleError{module: one.module, reason: state.ReasonStartFailed, err: fmt.Errorf("OnStart hook: %w", err)}
		}
		h.mu.Lock()
		h.started++
		h.mu.Unlock()
	}
}

func (h *hooks) next() (hook, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started >= len(h.list) {
		return hook{}, false
	}
	return h.list[h.started], true
}

// stop runs the OnStop hooks of everything that started, last first. All of them run, whatever
// the others do; each may take an equal share of what is left until the deadline of ctx. It
// returns the errors of all.
func (h *hooks) stop(ctx context.Context) error {
	h.mu.Lock()
	left := h.list[:h.started]
	h.list, h.started = nil, 0
	h.mu.Unlock()
	var errs []error
	for i := len(left) - 1; i >= 0; i-- {
		share, cancel := shareOf(ctx, i+1)
		if err := h.run(share, left[i].stop, nil); err != nil {
			errs = append(errs, &moduleError{module: left[i].module, err: fmt.Errorf("OnStop hook: %w", err)})
		}
		cancel()
	}
	return errors.Join(errs...)
}

// hold keeps end from returning until running.Done is called, and reports whether it is not too late.
func (h *hooks) hold() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return false
	}
	h.running.Add(1)
	return true
}

// end returns when nothing of this runs any more.
func (h *hooks) end() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.running.Wait()
}

// shareOf divides the time until the deadline of ctx by n.
func shareOf(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

// run calls f and returns when it does, or when ctx ends. If f returns nil only after that, late
// is called.
func (h *hooks) run(ctx context.Context, f func(context.Context) error, late func()) error {
	if f == nil {
		return nil
	}
	done := make(chan error, 1)
	h.running.Go(func() { done <- panics.Catch(func() error { return f(ctx) }) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	h.running.Go(func() {
		if err := <-done; err == nil && late != nil {
			late()
		}
	})
	return fmt.Errorf("did not return in time: %w", context.Cause(ctx))
}

func (h *hooks) stopLate(ctx context.Context, one hook) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.timeout)
	defer cancel()
	if err := h.run(ctx, one.stop, nil); err != nil {
		h.log.Error(err, "Could not stop what had started too late", "module", one.module)
	}
}
