// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

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
// A step that fails because the gate has refused a write runs again when the gate is open, and one that fails for another
// reason that may pass, such as an overload, after a pause. If ctx ends before the gate opens, the error closed is that of the gate.
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

// cleanOne runs one step until it fails for a reason that stays. The error closed is that of the gate if ctx ends first.
func (l *Life) cleanOne(ctx context.Context, step CleanupStep, left int) (closed, err error) {
	share, cancel := shareOf(ctx, left)
	defer cancel()
	for {
		before := l.refused.Load()
		err = l.try(ctx, step, left)
		after := l.refused.Load()
		switch {
		case err == nil:
			return nil, nil
		case after != before:
			closed = *after
		case ctx.Err() == nil && mayPass(err) && l.awaitGate(share, cleanAgain):
			l.Log.V(1).Info("A cleanup step is tried again", "step", step.Name, "error", err.Error())
			continue
		case ctx.Err() == nil:
			return nil, err
		}
		if ctx.Err() != nil || closed == nil {
			return closed, err // The gate has used up the time, if it has refused a write.
		}
		l.Log.V(1).Info("A cleanup step waits, because this hub may not write", "step", step.Name, "gate", closed.Error())
		if !l.awaitGate(ctx, gateEvery) {
			return closed, err
		}
	}
}

// mayPass reports whether a remote may do later what it has not done now.
func mayPass(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || code == http.StatusConflict
	}
	var network net.Error
	return errors.As(err, &network)
}

const (
	cleanAgain = time.Second // cleanAgain is the pause between tries of a cleanup step.
	// gateEvery is how often a cleanup step that was refused looks at the gate, which announces nothing.
	gateEvery = 100 * time.Millisecond
)

// awaitGate waits, for every at least, until the gate is open. It returns false if ctx ends before that.
func (l *Life) awaitGate(ctx context.Context, every time.Duration) (open bool) {
	return wait.PollUntilContextCancel(ctx, every, false, func(context.Context) (bool, error) {
		if l.Gate == nil {
			return true, nil
		}
		_, err := l.Gate(l.Name)
		return err == nil, nil
	}) == nil
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
