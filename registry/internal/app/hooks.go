// SPDX-License-Identifier: Apache-2.0

package app

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

// hooks replace fx's lifecycle, which cannot be used for an App inside an App: a start that times out never runs the
// stop hooks of the started hooks, a Stop with an expired context runs nothing and cannot be repeated, and a panic in a
// hook ends the process (uber-go/fx#1035; fx v1.24, internal/lifecycle).
type hooks struct {
	log     logr.Logger
	timeout time.Duration // of an OnStop hook that is run late

	running sync.WaitGroup // hooks, also hooks that have timed out, and sources of modules

	mu      sync.Mutex // protects the fields; not held while a hook runs
	list    []hook
	started int // how many of the list have started
	ended   bool
}

// Either may be nil.
type hook struct {
	module      string
	start, stop func(context.Context) error
}

func (h *hooks) add(one hook) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, one)
}

// start stops at the first failure or when ctx ends. A hook that succeeds after that is stopped at once.
func (h *hooks) start(ctx context.Context) error {
	for {
		one, ok := h.next()
		if !ok {
			return nil
		}
		if err := h.run(ctx, one.start, func() { h.stopLate(ctx, one) }); err != nil {
			return &ModuleError{Module: one.module, Reason: state.ReasonStartFailed, Err: fmt.Errorf("OnStart hook: %w", err)}
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

// stop runs the OnStop hooks of all started hooks, last first, also after a failure; each may take an equal share of
// the time that ctx has left.
func (h *hooks) stop(ctx context.Context) error {
	h.mu.Lock()
	left := h.list[:h.started]
	h.list, h.started = nil, 0
	h.mu.Unlock()
	var errs []error
	for i := len(left) - 1; i >= 0; i-- {
		share, cancel := shareOf(ctx, i+1)
		if err := h.run(share, left[i].stop, nil); err != nil {
			errs = append(errs, &ModuleError{Module: left[i].module, Err: fmt.Errorf("OnStop hook: %w", err)})
		}
		cancel()
	}
	return errors.Join(errs...)
}

// hold keeps end from returning until running.Done, and reports whether it is not too late.
func (h *hooks) hold() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return false
	}
	h.running.Add(1)
	return true
}

func (h *hooks) end() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	h.running.Wait()
}

func shareOf(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

// run returns when f does or ctx ends. If f returns nil after the end of ctx, run calls late.
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
		h.log.Error(err, "Failed to stop a hook that started too late", "module", one.module)
	}
}
