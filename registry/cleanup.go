// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// CleanupStep reverts the changes of a module in a remote when the remote is removed for good.
// Provide steps with AsCleanup:
//
//	fx.Provide(registry.AsCleanup(func(remote client.Client) registry.CleanupStep {
//		return registry.CleanupStep{Name: "inventory/configmap", Order: 10, Run: ...}
//	}))
//
// Steps run one after the other, when all controllers of the app have ended, in the order of Order and then of Name.
// A step that fails does not keep the next ones from running. There is no second try: a remote may be gone forever,
// and a removal must end. A step must not return before it is done, and must return when its context ends, which is
// at the end of its share of the removal's time.
type CleanupStep struct {
	// Name identifies the step in logs and events: the module's name, a slash and a word.
	Name string
	// Order is the step's place: steps with a lower Order run first. Default 0.
	Order int
	// Run does the work of the step.
	Run func(ctx context.Context) error
}

// takeSteps receives the cleanup steps of all modules when the graph is built.
func (e *epoch) takeSteps(steps []CleanupStep) {
	e.steps = slices.SortedFunc(slices.Values(steps), func(a, b CleanupStep) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
}

func stepNames(steps []CleanupStep) []string {
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
	}
	return names
}

// clean ends the controllers of the modules, runs the cleanup steps until ctx ends, and returns the names of the
// steps that were not done. The app's clients still work. It never waits longer than ctx.
func (e *epoch) clean(ctx context.Context) (left []string) {
	atMost := e.limits.StopTimeout / 2
	if deadline, ok := ctx.Deadline(); ok {
		atMost = min(atMost, time.Until(deadline))
	}
	e.permission.Close(atMost)
	for i, step := range e.steps {
		if err := e.cleanOne(ctx, step, len(e.steps)-i); err != nil {
			e.log.Error(err, "A cleanup step was not done", "step", step.Name)
			left = append(left, step.Name)
		}
	}
	return left
}

// cleanOne runs one step, within its share of the time that is left for it and the steps after it.
func (e *epoch) cleanOne(ctx context.Context, step CleanupStep, left int) error {
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

// stepsSeen are the names of all cleanup steps that apps of a registry have had.
type stepsSeen struct {
	mu    sync.Mutex // protects names
	names map[string]bool
}

func (s *stepsSeen) noteSteps(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	for _, name := range names {
		s.names[name] = true
	}
}

func (s *stepsSeen) knownSteps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.names))
}
