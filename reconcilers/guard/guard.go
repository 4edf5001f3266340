// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Task changes an external system. When its context ends (the lock is lost, or the reconcile is to end) it must
// return within a third of Options.TTL. Its outcome ends the attempt. With an error the outcome does not count and
// the attempt stays open, unless the error is Terminal.
type Task func(ctx context.Context, a Attempt) (Outcome, error)

// Attempt is one change of the external system, in one or several runs of a task.
type Attempt struct {
	// ID is a UUID, the same in all runs: an idempotency key. Pass it with every request that creates a resource.
	ID string
	// Number counts the attempts for this condition of this object, from one.
	Number int64
	// Recovering: an earlier run was interrupted or failed. Look for resources with ID before you create one.
	Recovering bool
	// Intent is the purpose that the attempt began with; this Guard's may differ if Recovering.
	Intent string
}

// Outcome is what a finished task writes to the condition.
type Outcome struct {
	Status  metav1.ConditionStatus // Status of the condition
	Reason  string                 // a CamelCase word, which Controller.Settled returns afterwards
	Message string                 // for people, and may be empty
}

// lastWords bounds the write of the outcome, also if the reconcile is to end.
const lastWords = 5 * time.Second

type run struct {
	attempt Attempt
	holder  string
	number  int64
	since   time.Time // just before the last request that extended the lock
}

func (r *run) owns(e entry) bool {
	return e.lock.Holder == r.holder && e.lock.AttemptID == r.attempt.ID && e.lock.Runs == r.number
}

// Guard runs a task while it holds the lock of the condition, writes the outcome, and blocks until the task has
// returned. One process at a time is in a Guard for an object and condition type.
//
// First the condition becomes Unknown and Locked, with the intent as its message. If that fails, nothing was done:
// the error is ErrLocked if another task runs, and ErrStale if object, condition or lock have changed since they were
// read. An error of the task is returned as it is. If the outcome cannot be written, Guard returns an error, and the
// next Guard gets the same Attempt.ID.
func (c *Controller[O]) Guard(ctx context.Context, intent string, task Task) (err error) {
	if _, taken := c.host.turns.LoadOrStore(c.key, true); taken {
		return c.host.busy()
	}
	defer c.host.turns.Delete(c.key)
	r, err := c.acquire(ctx, intent)
	if err != nil {
		return fmt.Errorf("lock %s of %s: %w", c.key.kind, c.object.GetName(), err)
	}
	result := errPanicked
	var outcome Outcome
	defer func() { // also when the task panics; the panic propagates to the caller
		c.running = nil
		err = c.settle(ctx, r, outcome, result)
	}()
	c.running = r
	outcome, result = c.run(ctx, r, task)
	return nil
}

func (c *Controller[O]) acquire(ctx context.Context, intent string) (*run, error) {
	if c.gone {
		return nil, fmt.Errorf("%w: the last finalizer of the object was removed", ErrStale)
	}
	r := &run{holder: c.host.holder}
	s, err := c.change(ctx, func(s *snapshot[O]) error {
		if err := c.mayChange(s); err != nil {
			return err
		}
		r.since = c.host.clock.now()
		r.attempt = s.begin(c.key.uid, intent, r.holder, c.host.options.TTL)
		r.number = s.lock.Runs
		s.stamp(r.since, true)
		s.set(metav1.ConditionUnknown, ReasonLocked, intent, c.precondition.generation)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.host.others.Remove(c.key)
	c.refresh(s)
	if c.host.clock.now().Sub(r.since) >= c.host.options.patience() {
		return nil, fmt.Errorf("%w: taking the lock took too long", ErrLockLost)
	}
	return r, nil
}

type ending struct {
	outcome     Outcome
	result      error
	interrupted bool // the context of the reconcile ended first
}

func (c *Controller[O]) settle(ctx context.Context, r *run, o Outcome, result error) error {
	end := ending{outcome: o, result: result, interrupted: ctx.Err() != nil}
	c.failed = result != nil
	finalizers := c.letGo
	c.letGo = nil
	ctx, cancel := c.host.clock.within(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	written := int64(0)
	err := c.insist(ctx, func(s *snapshot[O]) error {
		if written != 0 && s.lock.Revision == written && s.lock.Holder == "" {
			return errUnchanged // The response to our last try was lost.
		}
		if !r.owns(s.entry) {
			return ErrLockLost
		}
		c.conclude(&s.entry, r.attempt, end)
		written = s.lock.Revision + 1
		return nil
	})
	if errors.Is(err, ErrStale) { // The task has run, so this error must be reported.
		err = errors.New(err.Error())
	}
	if err != nil {
		if result == nil {
			return fmt.Errorf("the outcome of %s of %s is not recorded: %w", c.key.kind, c.object.GetName(), err)
		}
		return fmt.Errorf("%w; and the lock %s is not released: %w", result, c.key.kind, err)
	}
	if result != nil {
		return result
	}
	for _, f := range finalizers {
		if err := c.RemoveFinalizer(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// conclude changes the entry to the result. A Terminal error refuses this run only: with an earlier run of unknown
// result the attempt stays open.
func (c *Controller[O]) conclude(e *entry, a Attempt, end ending) {
	generation, o, result := c.precondition.generation, end.outcome, end.result
	switch {
	case result == nil:
		e.end()
		e.set(o.Status, o.Reason, o.Message, generation)
		e.lock.Settled = e.condition.Reason
		c.progressed = true
		return
	case errors.Is(result, errPanicked):
		e.set(metav1.ConditionUnknown, ReasonPanicked, "The task panicked", generation)
	case end.interrupted:
		e.set(metav1.ConditionUnknown, ReasonInterrupted, result.Error(), generation)
	default:
		class := c.host.class(result)
		e.fail(class, result, generation)
		if class == Terminal && !a.Recovering {
			e.end()
			return
		}
	}
	e.release()
}

// insist retries until ctx ends or an error shows that retries cannot help.
func (c *Controller[O]) insist(ctx context.Context, f func(*snapshot[O]) error) error {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		s, err := c.change(ctx, f)
		if err == nil {
			c.refresh(s)
			return nil
		}
		hopeless := errors.Is(err, ErrLockLost) || errors.Is(err, ErrStale) || apierrors.IsNotFound(err) ||
			apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
		if hopeless || !sleep(ctx, c.host.clock, pause) {
			return err
		}
	}
}
