// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// CleanupStep reverts the changes of a module in a remote when the remote is removed for good. registry.CleanupStep
// describes the fields.
type CleanupStep struct {
	Name  string
	Order int
	Run   func(ctx context.Context) error
}

// SetSteps receives the cleanup steps of all modules when the graph is built.
func (l *Life) SetSteps(steps []CleanupStep) {
	l.steps = slices.SortedFunc(slices.Values(steps), func(a, b CleanupStep) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
}

// Steps returns the names of the cleanup steps, in their order. Call it when the graph is built.
func (l *Life) Steps() []string {
	var names []string
	for _, s := range l.steps {
		names = append(names, s.Name)
	}
	return names
}

// Clean ends the controllers of the modules, runs the cleanup steps until ctx ends, and returns the names of the
// steps that were not done. The app's clients still work. It never waits longer than ctx.
//
// A step that fails because the gate has refused a write runs again when the gate is open. If ctx ends before that, the
// error closed is that of the gate.
func (l *Life) Clean(ctx context.Context) (left []string, closed error) {
	atMost := l.Limits.StopTimeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		atMost = min(atMost, time.Until(deadline))
	}
	l.Contained.Gate.Close(atMost)
	l.cleaning.Store(true)
	for i, step := range l.steps {
		refused, err := l.cleanOne(ctx, step, len(l.steps)-i)
		if err != nil {
			l.Log.Error(err, "A cleanup step was not done", "step", step.Name)
			left = append(left, step.Name)
		}
		if refused != nil {
			closed = refused
		}
	}
	return left, closed
}

// Refused returns the error with which the gate has refused a write, if that may be why the app has failed with err: err says
// it, the app was not ready yet, or the gate is closed now.
func (l *Life) Refused(wasReady bool, err error) error {
	last := l.refused.Load()
	if last == nil {
		return nil
	}
	_, closed := l.Gate(l.Name)
	var refused *transport.RefusedError
	if wasReady && closed == nil && !errors.As(err, &refused) {
		return nil
	}
	return *last
}

// cleanOne runs one step until it fails for another reason than the gate. The error closed is that of the gate if ctx
// ends first.
func (l *Life) cleanOne(ctx context.Context, step CleanupStep, left int) (closed, err error) {
	for {
		before := l.refused.Load()
		err = l.try(ctx, step, left)
		after := l.refused.Load()
		switch {
		case err == nil:
			return nil, nil
		case after != before:
			closed = *after
		case ctx.Err() == nil:
			return nil, err
		}
		if ctx.Err() != nil || closed == nil {
			return closed, err // The gate has used up the time, if it has refused a write.
		}
		l.Log.V(1).Info("A cleanup step waits, because this hub may not write", "step", step.Name, "gate", closed.Error())
		if !l.awaitGate(ctx) {
			return closed, err
		}
	}
}

// gateEvery is how often a cleanup step that was refused looks at the gate, which announces nothing.
const gateEvery = 100 * time.Millisecond

// awaitGate waits, for a moment at least, until the gate is open. It returns false if ctx ends before that.
func (l *Life) awaitGate(ctx context.Context) (open bool) {
	again := time.NewTicker(gateEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
		if _, err := l.Gate(l.Name); err == nil {
			return true
		}
	}
}

// try runs a step once, within its share of the time that is left for it and the steps after it.
func (l *Life) try(ctx context.Context, step CleanupStep, left int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("there was no time left: %w", context.Cause(ctx))
	}
	if step.Run == nil {
		return errors.New("the step has no Run")
	}
	if !l.hooks.hold() {
		return errors.New("the app has ended")
	}
	defer l.hooks.running.Done()
	ctx, cancel := shareOf(ctx, left)
	defer cancel()
	return l.hooks.run(ctx, step.Run, nil)
}
