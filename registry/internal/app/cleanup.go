// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// CleanupStep reverts the changes of a module in a remote when the remote is removed for good. registry.CleanupStep
// describes the fields.
type CleanupStep struct {
	Name  string
	Order int
	Run   func(ctx context.Context) error
}

// SetSteps receives the cleanup steps of all modules when the graph is built.
func (e *Epoch) SetSteps(steps []CleanupStep) {
	e.steps = slices.SortedFunc(slices.Values(steps), func(a, b CleanupStep) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
}

// Steps returns the names of the cleanup steps, in their order. Call it when the graph is built.
func (e *Epoch) Steps() []string {
	var names []string
	for _, s := range e.steps {
		names = append(names, s.Name)
	}
	return names
}

// Clean ends the controllers of the modules, runs the cleanup steps until ctx ends, and returns the names of the
// steps that were not done. The app's clients still work. It never waits longer than ctx.
func (e *Epoch) Clean(ctx context.Context) (left []string) {
	atMost := e.Limits.StopTimeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		atMost = min(atMost, time.Until(deadline))
	}
	e.permission.Close(atMost)
	e.cleaning.Store(true)
	for i, step := range e.steps {
		if err := e.cleanOne(ctx, step, len(e.steps)-i); err != nil {
			e.Log.Error(err, "A cleanup step was not done", "step", step.Name)
			left = append(left, step.Name)
		}
	}
	return left
}

// cleanOne runs one step, within its share of the time that is left for it and the steps after it.
func (e *Epoch) cleanOne(ctx context.Context, step CleanupStep, left int) error {
	if ctx.Err() != nil {
		return fmt.Errorf("there was no time left: %w", context.Cause(ctx))
	}
	if step.Run == nil {
		return errors.New("the step has no Run")
	}
	if !e.hooks.hold() {
		return errors.New("the app has ended")
	}
	defer e.hooks.running.Done()
	ctx, cancel := shareOf(ctx, left)
	defer cancel()
	return e.hooks.run(ctx, step.Run, nil)
}
