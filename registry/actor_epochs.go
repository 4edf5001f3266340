// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/state"
)

// This file has the actions of an actor on the apps of its remote. Code that changes the actor runs in the actor's
// goroutine; code that waits runs in a goroutine that the actor owns, and posts a fact.

// start builds and runs an app on the connection that act names. It calls first with the epoch before that.
func (a *actor) start(act machine.Action, now time.Time, first func(*epoch)) {
	l := a.link
	if l == nil || l.Endpoint() != act.Endpoint {
		l = a.spare
	}
	number, redact := act.Epoch, a.registry.redactFor(l.Transport())
	e := &epoch{
		lifetime: lifetime{name: a.name, number: number, log: logsink.Redact(a.log.WithValues("epoch", number), redact)},
		config:   a.applied, base: l.Transport(), heard: l.LastReceived(), info: a.describe(now), rank: a.rank(),
		quote: quoter(redact), chosen: a.selection.run, offered: a.selection.offered, wanted: &a.latest, missed: a.surveyNow,
	}
	e.info.Epoch = number
	newEpoch(a.registry.environment, e, func() {
		a.do(func() { a.learn(machine.AppWaiting{Epoch: number, Waiting: e.tracker.waiting()}) })
	})
	e.built = func(steps []string) {
		a.do(func() {
			a.steps[number] = steps
			a.owe(steps)
			a.registry.noteSteps(steps)
			a.learn(machine.AppBuilt{Epoch: number, Steps: len(steps)})
		})
	}
	first(e)
	a.epochs[number] = e
	go e.run(
		func() { a.post(machine.AppReady{Epoch: number}) },
		func(err error) {
			failed := describe(err)
			failed.Message = redact(failed.Message)
			a.registry.metrics.CountAppFailure(string(a.name), failed.Reason)
			a.logFailure(failed, err)
			a.do(func() {
				a.learn(machine.AppEnded{Epoch: number, Why: failed})
				if failed.OfRemote {
					l.ProbeNow()
				}
			})
		},
	)
}

func (a *actor) logFailure(failed machine.Failure, err error) {
	log := a.log
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		log = log.WithValues("stack", string(panicked.Stack))
	}
	log.Info("The app failed and will be started again",
		"module", failed.Module, "reason", failed.Reason, "error", failed.Message)
}

// stopEpoch fences the epoch now, and reports it gone when it has ended or, as a zombie, after StopTimeout.
func (a *actor) stopEpoch(number int64) {
	e := a.epochs[number]
	e.stop(ErrStopped)
	a.work.Go(func() {
		a.waitFor(e)
		a.do(func() {
			a.learn(machine.AppGone{Epoch: number})
			a.release(e)
		})
	})
}

// waitFor waits for the end of a stopped epoch, and leaves the epoch behind after StopTimeout.
func (a *actor) waitFor(e *epoch) {
	patience := time.NewTimer(a.registry.limits.StopTimeout)
	defer patience.Stop()
	select {
	case <-e.done:
	case <-patience.C:
		if e.leftBehind.CompareAndSwap(false, true) {
			a.leaveBehind(e)
		}
	}
}

// release drops the actor's reference to an epoch, so that its caches can be freed.
func (a *actor) release(e *epoch) {
	if e.number == a.machine.App.Epoch {
		a.modules = a.modulesIn(e)
	}
	a.drop(e.number)
}

// drop forgets an epoch. The cleanup steps of the last epoch are kept for a removal.
func (a *actor) drop(number int64) {
	delete(a.epochs, number)
	if number != a.machine.App.Epoch {
		delete(a.steps, number)
	}
}

// leaseGrace is how long the leases of an app continue after another app has replaced it.
const leaseGrace = 10 * time.Second

// yield ends the controllers of an epoch, so that the controllers of the next epoch may start.
func (a *actor) yield(number int64) {
	e := a.epochs[number]
	a.work.Go(func() {
		e.yield(a.registry.limits.StopTimeout / 2)
		a.post(machine.AppYielded{Epoch: number})
	})
}

// retire lets the leases of an epoch continue for leaseGrace after another epoch has replaced it.
func (a *actor) retire(number int64) {
	e := a.epochs[number]
	a.retired = append(a.retired, e)
	a.drop(number)
	a.work.Go(func() {
		grace := time.NewTimer(leaseGrace)
		defer grace.Stop()
		select {
		case <-grace.C:
		case <-e.ctx.Done():
		}
		e.stop(ErrReplaced)
		a.waitFor(e)
		a.do(func() {
			a.retired = slices.DeleteFunc(a.retired, func(other *epoch) bool { return other == e })
		})
	})
}

// endRetired ends the leases of replaced apps.
func (a *actor) endRetired() {
	for _, e := range a.retired {
		e.stop(ErrStopped)
	}
}

// clean ends the controllers of an epoch and runs its cleanup steps until the deadline of the removal.
func (a *actor) clean(number int64) {
	e := a.epochs[number]
	ctx, cancel := context.WithDeadline(e.ctx, a.wants.RemoveBy)
	a.work.Go(func() {
		defer cancel()
		left := e.clean(ctx)
		a.do(func() {
			a.learn(machine.AppCleaned{Epoch: number})
			a.steps[number] = left
			for _, done := range stepNames(e.steps) {
				delete(a.owed, done)
			}
			a.owe(left)
			a.removal.Why = "see the hub's log"
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				a.removal.Why = outOfTime
			}
		})
	})
}

// outOfTime is the cause if steps are not done only because the time of the removal has ended.
const outOfTime = "there was no time left"

// owe records the cleanup steps to do before the remote is removed. A module that no longer runs may have left
// objects there, too.
func (a *actor) owe(steps []string) {
	for _, name := range steps {
		a.owed[name] = true
	}
}

// noteUndone records the steps that a removal has not done so far.
func (a *actor) noteUndone(stop bool) {
	if !stop {
		a.removal.Why = ""
		a.undone.Store(nil)
		return
	}
	left := a.left()
	left.Zombie = true // Its reader does not wait for the end of the app.
	a.undone.Store(&left)
}

// abandoned returns an error that names the work that a removal has left undone, or nil. It is called when the actor
// has ended.
func (a *actor) abandoned() error {
	left := a.left()
	left.Zombie = a.machine.Zombies > 0
	if len(left.Steps) == 0 && !left.Zombie {
		return nil
	}
	return &left
}

// left returns the cleanup steps that are not done, and the cause. An app that was never built in this process counts
// as an app with the steps of all other apps.
func (a *actor) left() AbandonedError {
	left := *a.removal
	var built bool
	if left.Steps, built = a.steps[a.machine.App.Epoch]; !built && a.machine.KnownID() != "" {
		left.Steps = a.registry.knownSteps()
	}
	left.Steps = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(left.Steps), maps.Keys(a.owed)))))
	switch {
	case left.Why != "" || len(left.Steps) == 0:
	case a.beforeStop.State == state.StateReady:
		left.Why = outOfTime
	default:
		left.Why = fmt.Sprintf("the remote %s could not be used (%s): %s",
			a.applied.Endpoint.Server, a.beforeStop.Reason, a.beforeStop.Message)
	}
	return left
}

// leaveBehind counts an epoch that does not end as a zombie until it does.
func (a *actor) leaveBehind(e *epoch) {
	a.log.Info("An app did not end in time and is left behind; it is fenced and can reach nothing",
		"epoch", e.number, "goroutines", e.contained.Goroutines())
	a.registry.zombies.Add(1)
	a.registry.metrics.AddZombies(string(a.name), 1)
	a.post(machine.ZombiesChanged{By: 1})
	go func() {
		<-e.done
		a.registry.zombies.Add(-1)
		a.registry.metrics.AddZombies(string(a.name), -1)
		a.post(machine.ZombiesChanged{By: -1})
	}()
}
