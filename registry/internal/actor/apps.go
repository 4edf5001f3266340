// SPDX-License-Identifier: Apache-2.0

package actor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/probe"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The actions of an actor on the apps of its remote. Code that changes the actor runs in its goroutine; code that waits
// runs in a goroutine that the actor owns, and posts a fact.

// start calls first with the epoch before that.
func (a *Actor) start(act machine.Action, now time.Time, first func(*app.Life)) {
	l := a.link
	if l == nil || l.Endpoint != act.Endpoint {
		l = a.spare
	}
	number := act.Epoch
	e := app.New(a.host.Apps, a.optionsFor(l, number, now))
	first(e)
	a.epochs[number] = e
	isEarly := a.wants.Warm
	var wasReady bool // before the app ends
	go e.Run(
		func() {
			wasReady = true
			a.do(func() {
				a.learn(machine.AppReady{Epoch: number})
				a.removal.Gate = nil
			})
		},
		func(err error) {
			failed := machine.Failure(app.Describe(err))
			failed.Message = a.host.Secrets.Redact(failed.Message)
			refused := e.Refused(wasReady, err) // A hook that writes fails while the gate is closed.
			a.noteFailure(failed, err, isEarly && refused != nil)
			a.do(func() {
				a.learn(machine.AppEnded{Epoch: number, Why: failed, Refused: refused != nil})
				a.removal.Gate = refused
				if failed.OfRemote {
					l.ProbeNow()
				}
			})
		},
	)
}

func (a *Actor) optionsFor(l *probe.Connection, number int64, now time.Time) app.Options {
	host, name := a.host, a.name
	run := a.selection.Run
	status := a.describe(now)
	status.Epoch = number
	return app.Options{
		Name: name, Number: number, Log: a.log.WithValues("epoch", number),
		Desired: a.applied.WithDefaults(), ModuleNames: a.selection.Names(), Unstreamed: a.unstreamed.At(l.Endpoint, status.Version),
		Filters:    func() map[string][]cache.Filter { return host.Modules.Filters(run) },
		Undeclared: host.Undeclared(run, a.applied.Labels),
		Missed:     a.preflightNow,
		Changed:    func() { a.noteWaiting(number) },
		Remote: &app.Remote{
			Base: l.Transport, LastReceived: &l.LastReceived, Doubt: l.Doubt, Rank: a.rank(), Early: a.takeEarly(l),
			HubTransport: host.HubTransport(name),
			Graph:        host.Graph(Start{Selection: a.selection, Status: status, Facts: &a.facts}),
			Middleware: func(next http.RoundTripper) http.RoundTripper {
				return host.Middleware.Wrap(name, a.latest.Load, next)
			},
			Built: func(steps []string) {
				a.do(func() {
					a.steps[number] = steps
					a.owe(steps)
					for _, name := range steps {
						a.host.steps.Store(name, nil)
					}
					a.learn(machine.AppBuilt{Epoch: number, Steps: len(steps)})
				})
			},
		},
	}
}

func (a *Actor) noteWaiting(number int64) {
	a.do(func() {
		if e := a.epochs[number]; e != nil {
			a.learn(machine.AppWaiting{Epoch: number, Waiting: e.Waiting()})
		}
	})
}

// noteFailure does not count the failure of a warm app that could not write, which is expected.
func (a *Actor) noteFailure(failed machine.Failure, err error, isExpected bool) {
	log := a.log
	if isExpected {
		log = log.V(1)
	} else {
		a.host.Apps.Metrics.CountAppFailure(string(a.name), failed.Reason)
	}
	panics.WithStack(log, err).Info("The app failed and will be started again",
		"module", failed.Module, "reason", failed.Reason, "error", a.host.Explain(failed.Message, failed.Problem))
}

// stopEpoch reports the epoch gone when it has ended or, as a zombie, after StopTimeout.
func (a *Actor) stopEpoch(number int64) {
	e := a.epochs[number]
	e.Stop(app.ErrStopped)
	cleaning := a.cleaning
	a.work.Go(func() {
		a.waitFor(e)
		if cleaning != nil {
			<-cleaning // The removal needs to know what was not done.
		}
		a.do(func() {
			a.learn(machine.AppGone{Epoch: number})
			a.release(e)
		})
	})
}

func (a *Actor) waitFor(e *app.Life) {
	select {
	case <-e.Done():
	case <-time.After(a.host.Apps.Limits.StopTimeout):
		if e.LeaveBehind() {
			a.leaveBehind(e)
		}
	}
}

// release drops a reference, so that the caches of the epoch can be freed.
func (a *Actor) release(e *app.Life) {
	if e.Number == a.machine.Latest().Epoch {
		a.modules = a.modulesIn(e)
	}
	a.drop(e.Number)
}

// drop keeps the cleanup steps of the last epoch for a removal.
func (a *Actor) drop(number int64) {
	delete(a.epochs, number)
	if number != a.machine.App.Epoch {
		delete(a.steps, number)
	}
}

// yield ends the controllers, so that those of the next epoch may start.
func (a *Actor) yield(number int64) {
	e := a.epochs[number]
	a.work.Go(func() {
		e.Yield(a.host.Apps.Limits.StopTimeout / 2)
		a.post(machine.AppYielded{Epoch: number})
	})
}

// retire lets the leases of an epoch continue for LeaseGrace after another epoch has replaced it.
func (a *Actor) retire(number int64) {
	e := a.epochs[number]
	a.retired = append(a.retired, e)
	a.drop(number)
	a.work.Go(func() {
		select {
		case <-time.After(a.host.LeaseGrace):
		case <-e.Context().Done():
		}
		e.Stop(app.ErrReplaced)
		a.waitFor(e)
		a.do(func() {
			a.retired = slices.DeleteFunc(a.retired, func(other *app.Life) bool { return other == e })
		})
	})
}

func (a *Actor) endRetired() {
	for _, e := range a.retired {
		e.Stop(app.ErrStopped)
	}
}

// clean runs cleanup steps until the deadline of the removal.
func (a *Actor) clean(number int64) {
	e := a.epochs[number]
	ctx, cancel := context.WithDeadline(e.Context(), a.wants.RemoveBy)
	done := make(chan struct{})
	a.cleaning = done
	a.work.Go(func() {
		defer close(done)
		defer cancel()
		left, closed := e.Clean(ctx)
		a.do(func() {
			a.removal.Gate = closed
			a.learn(machine.AppCleaned{Epoch: number})
			a.steps[number] = left
			for _, done := range e.Steps() {
				delete(a.owed, done)
			}
			a.owe(left)
			a.removal.Why = "see the hub's log"
			switch {
			case closed != nil:
				a.removal.Why = closed.Error()
			case errors.Is(ctx.Err(), context.DeadlineExceeded):
				a.removal.Why = outOfTime
			}
		})
	})
}

// outOfTime is the cause if steps are not done only because the time of the removal has ended.
const outOfTime = "there was no time left"

// owe records cleanup steps for a removal. A module that no longer runs may have left objects there, too. A warm remote
// owes nothing: its app has not worked, and the hub that has it at work cleans up.
func (a *Actor) owe(steps []string) {
	if a.wants.Warm {
		return
	}
	for _, name := range steps {
		a.owed[name] = true
	}
}

func (a *Actor) noteUndone(stop bool) {
	if !stop {
		a.removal.Why = ""
		a.undone.Store(nil)
		return
	}
	left := a.left()
	left.Zombie = true // Its reader does not wait for the end of the app.
	a.undone.Store(&left)
}

// Leftover returns the work that a removal has left undone, or nil. It must be called after the end of the actor.
func (a *Actor) Leftover() *Leftover {
	left := a.left()
	left.Zombie = a.machine.Zombies > 0
	if len(left.Steps) == 0 && !left.Zombie {
		return nil
	}
	return &left
}

// left counts an app that was never built in this process as one with the steps of all other apps.
func (a *Actor) left() Leftover {
	if a.wants.Warm {
		return Leftover{}
	}
	left := *a.removal
	var built bool
	if left.Steps, built = a.steps[a.machine.App.Epoch]; !built && a.machine.KnownID() != "" && !a.wants.IdentifyOnly {
		a.host.steps.Range(func(name, _ any) bool {
			left.Steps = append(left.Steps, name.(string))
			return true
		})
	}
	left.Steps = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(left.Steps), maps.Keys(a.owed)))))
	if gate := a.host.Apps.Gate; gate != nil && left.Gate == nil && len(left.Steps) > 0 {
		_, left.Gate = gate(a.name)
	}
	switch {
	case left.Why != "" || len(left.Steps) == 0:
	case a.beforeStop.State == state.StateReady:
		left.Why = outOfTime
	default:
		left.Why = fmt.Sprintf("the remote %s could not be used (%s): %s",
			a.applied.Endpoint.Server, a.beforeStop.Reason, a.beforeStop.Message)
		left.Problem = a.beforeStop.Problem
	}
	return left
}

func (a *Actor) leaveBehind(e *app.Life) {
	a.log.Info("An app did not end in time and is left behind; it is fenced and can reach nothing",
		"epoch", e.Number, "goroutines", e.Contained.Goroutines())
	a.host.Zombies.Add(1)
	a.host.Apps.Metrics.AddZombies(string(a.name), 1)
	a.post(machine.ZombiesChanged{By: 1})
	go func() {
		<-e.Done()
		a.host.Zombies.Add(-1)
		a.host.Apps.Metrics.AddZombies(string(a.name), -1)
		a.post(machine.ZombiesChanged{By: -1})
	}()
}
