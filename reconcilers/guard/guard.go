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

// Task changes an external system. Its context ends when the lock is lost or the reconcile is to end; it has a
// third of Options.TTL to return then. The outcome ends the attempt. With an error the outcome has no meaning, and
// the attempt stays open, unless the error is Terminal.
type Task func(ctx context.Context, a Attempt) (Outcome, error)

// Attempt is one change of the external system, which may take several runs of a task.
type Attempt struct {
	// ID is a UUID that names the attempt, the same in all its runs: an idempotency key. Give it to the
	// external system with everything that is created.
	ID string
	// Number counts the attempts for this condition of this object, from one.
	Number int64
	// Recovering says that a run began before this one, and either did not come to its end or had an error.
	// What it did may be there. Look for ID before creating anything.
	Recovering bool
	// Intent is what the attempt was begun for. If Recovering it is what was given to the first Guard of the
	// attempt, which may have been another one than this.
	Intent string
}

// Outcome is what a finished task leaves in the condition.
type Outcome struct {
	// Status of the condition.
	Status metav1.ConditionStatus
	// Reason is a CamelCase word. It is what Controller.Settled returns from then on.
	Reason string
	// Message is for people. It may be empty.
	Message string
}

// lastWords is how long writing the outcome may take, also if the reconcile is to end.
const lastWords = 5 * time.Second

// run is one run of a task.
type run struct {
	attempt Attempt
	holder  string
	number  int64
	since   time.Time // before the request that last extended the lock was sent
}

func (r *run) owns(e entry) bool { return e.isRun(r.holder, r.attempt, r.number) }

// Guard runs a task while it holds the lock of the condition, and writes the outcome. It blocks until the task
// has returned. Of all processes one is in a Guard at a time, for this object and condition type.
//
// First the condition becomes Unknown and Locked, with the intent as its message. If that fails nothing was done:
// the error is ErrLocked if there is another task, and ErrStale if the object, its condition or its lock has
// changed since it was read. After the task, its outcome and the lock are written at once. An error of the
// task is returned as it is. If the outcome cannot be written Guard returns an error, and the next one of this
// condition is a recovery: its task has the same Attempt.ID.
func (c *Controller[O]) Guard(ctx context.Context, intent string, task Task) (err error) {
	if !c.host.turns.take(c.key) {
		return c.host.busy()
	}
	defer c.host.turns.leave(c.key)
	r, err := c.acquire(ctx, intent)
	if err != nil {
		return fmt.Errorf("lock %s of %s: %w", c.key.kind, c.object.GetName(), err)
	}
	result := errPanicked
	var outcome Outcome
	defer func() { // also when the task panics; the panic goes on to whoever recovers
		c.running = nil
		err = c.settle(ctx, r, outcome, result)
	}()
	c.running = r
	outcome, result = c.run(ctx, r, task)
	return nil
}

// acquire takes the lock for a run.
func (c *Controller[O]) acquire(ctx context.Context, intent string) (*run, error) {
	if c.gone {
		return nil, fmt.Errorf("%w: its last finalizer was removed", ErrStale)
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
		s.set(metav1.ConditionUnknown, ReasonLocked, intent, c.basis.generation)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.host.others.forget(c.key)
	c.refresh(s)
	if c.host.clock.now().Sub(r.since) >= c.host.options.patience() {
		return nil, fmt.Errorf("%w: it took too long to get it", ErrLockLost)
	}
	return r, nil
}

// ending is how a run ended.
type ending struct {
	outcome     Outcome
	result      error
	interrupted bool // the reconcile was to end before it did
}

// settle writes how a run ended, and gives the lock back. It returns the result of the run.
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
			return errUnchanged // The answer to our last try was lost.
		}
		if !r.owns(s.entry) {
			return ErrLockLost
		}
		c.conclude(&s.entry, r.attempt, end)
		written = s.lock.Revision + 1
		return nil
	})
	if errors.Is(err, ErrStale) { // The task has run, so this is no reason to come back without a word.
		err = errors.New(err.Error())
	}
	if err != nil {
		if result == nil {
			return fmt.Errorf("the outcome of %s of %s is not recorded: %w", c.key.kind, c.object.GetName(), err)
		}
		return fmt.Errorf("%w; and the lock %s is not given back: %w", result, c.key.kind, err)
	}
	if result != nil {
		return result
	}
	return c.removeLater(ctx, finalizers)
}

// conclude changes the entry to how a run ended. A Terminal error says that the system has refused this run. What
// became of an earlier one nobody knows, so its attempt stays open.
func (c *Controller[O]) conclude(e *entry, a Attempt, end ending) {
	generation, o, result := c.basis.generation, end.outcome, end.result
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

// insist makes a change, and tries again as long as ctx lets it and trying may help.
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
