// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	lookEvery = 250 * time.Millisecond
	settle    = time.Second      // between the first round and the second
	holdEvery = time.Minute      // between two looks whether the policy is in force
	tellEvery = 10 * time.Second // between two lines of progress
	failures  = 3                // of an app that does not start

	leakTimeout = 15 * time.Second // for the goroutines of modules to end after their apps
)

// play returns when all apps, and hub parts, are at rest or have failed, at the end of the time, or with ctx.
func (r *rehearsal) play(ctx context.Context, remotes *registry.Registry) {
	ctx, cancel := context.WithTimeout(ctx, r.For)
	var playing, beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	var over atomic.Int32
	for _, a := range r.apps() {
		playing.Go(func() {
			defer over.Add(1)
			if a != r.hubParts {
				if err := remotes.Ensure(registry.ClusterName(a.name), a.desired); err != nil {
					a.lose(NotRunning, err.Error())
				}
			}
			r.rehearse(ctx, a, remotes)
		})
	}
	every := func(period time.Duration, f func()) {
		beside.Go(func() {
			_ = wait.PollUntilContextCancel(ctx, period, false, func(context.Context) (bool, error) { // It ends with ctx.
				f()
				return false, nil
			})
		})
	}
	every(tellEvery, func() { r.Progress("%d of %d apps at rest", int(over.Load()), len(r.clusters)+1) })
	every(holdEvery, func() {
		if r.endUnheld(ctx, remotes); r.hubParts.lost.Load() {
			cancel()
		}
	})
	playing.Wait()
}

// rehearse returns when an app has done everything twice and is at rest, or never will be.
func (r *rehearsal) rehearse(ctx context.Context, a *app, remotes *registry.Registry) {
	name, quiet := registry.ClusterName(a.name), r.Quiet
	if a == r.hubParts {
		quiet *= 2 // They report at times: the status of SyncRules after 15 seconds.
	}
	rests := func(quiet time.Duration) bool {
		return wait.PollUntilContextCancel(ctx, lookEvery, true, func(context.Context) (bool, error) {
			runs := a.runs(remotes)
			if a.lost.Load() {
				return false, errLost
			}
			return runs && remotes.Rounds(name).Left == 0 && a.idle() > quiet, nil
		}) == nil
	}
	if rests(settle) {
		r.beginSecond(a)
		remotes.Repeat(name)
		if rests(quiet) {
			remotes.Measure(name)
			return
		}
	}
	rounds := remotes.Rounds(name)
	switch isRunning := a.runs(remotes); {
	case a.lost.Load():
	case !isRunning:
		info, _ := remotes.Status(name)
		a.lose(NotRunning, "it was not ready in time: "+info.Reason+" "+info.Message)
	case rounds.Working > 0 && rounds.Left > 0:
		a.find(Finding{Class: NotAtRest, Detail: "a reconcile did not return, or not everything was reconciled twice"})
	case rounds.Left > 0:
		a.find(Finding{Class: NotAtRest, Detail: "not everything was reconciled twice"})
	default:
		a.find(Finding{Class: NotAtRest, Detail: "it wrote something new until the end"})
	}
}

var errLost = errors.New("a finding says why the app does not run")

// runs reports whether an app runs, and loses one that never will.
func (a *app) runs(remotes *registry.Registry) bool {
	if a.name == "" {
		return !slices.ContainsFunc(remotes.HubParts(), func(part state.HubPartStatus) bool {
			return part.State == state.ModuleStarting || part.State == state.ModuleFailed && part.Restarts < failures
		})
	}
	info, _ := remotes.Status(registry.ClusterName(a.name))
	switch {
	case info.Reason == state.ReasonOverBudget:
		a.lose(OverBudget, info.Message)
	case info.State == state.StateFailed && info.Restarts >= failures, info.State == state.StatePaused:
		a.lose(NotRunning, info.Reason+": "+info.Message)
	}
	return info.State == state.StateReady
}

// endUnheld ends the apps of remotes whose policy is no longer in force, without a cleanup step.
func (r *rehearsal) endUnheld(ctx context.Context, remotes *registry.Registry) {
	all := slices.DeleteFunc(r.apps(), func(a *app) bool { return a.lost.Load() })
	atOnce(all, func(i int) {
		a := all[i]
		why := r.held(ctx, a)
		if !errors.Is(why, ErrNotHeld) {
			return // It may be that it cannot be asked.
		}
		a.lose(NotHeld, why.Error())
		if a != r.hubParts {
			paused := a.desired
			paused.Paused = true
			_ = remotes.Ensure(registry.ClusterName(a.name), paused) // It fails only at the end.
		}
	})
}

// finish reads what was wanted again while the apps still run.
func (r *rehearsal) finish(ctx context.Context, remotes *registry.Registry, report *Report) {
	r.notRunning(remotes)
	r.outcomes()
	all := r.apps()
	changes := make([][]Change, len(all))
	atOnce(all, func(i int) { changes[i] = all[i].effective(ctx) })
	report.Changes = slices.Concat(changes...)
	report.Memory, report.Load = r.memory(), r.load()
	noteHolds(report.Changes, remotes)
}

// notRunning finds modules and hub parts that do not run, but for those of an app that does not.
func (r *rehearsal) notRunning(remotes *registry.Registry) {
	for _, a := range r.clusters {
		info, _ := remotes.Status(registry.ClusterName(a.name))
		for _, m := range info.Modules {
			if m.State != state.ModuleRunning && !a.lost.Load() {
				a.find(Finding{Module: m.Name, Class: NotRunning, Detail: fmt.Sprintf("%s: %s %s", m.State, m.Reason, m.Message)})
			}
		}
	}
	for _, part := range remotes.HubParts() {
		if part.State != state.ModuleRunning {
			r.hubParts.find(Finding{Module: part.Module, Class: NotRunning, Detail: fmt.Sprintf("%s: %s %s", part.State, part.Reason, part.Message)})
		}
	}
}

// leaks finds goroutines of modules that go on after the end of their app.
func (r *rehearsal) leaks(ctx context.Context) {
	ended := wait.PollUntilContextTimeout(ctx, lookEvery, leakTimeout, true, func(context.Context) (bool, error) {
		return len(registry.Goroutines(label, r.id)) == 0, nil
	})
	if ended == nil {
		return
	}
	for _, a := range r.clusters {
		for _, where := range registry.Goroutines(label, r.id, "cluster", a.name) {
			a.find(Finding{Class: Leaks, Detail: "goroutines go on after the end of the app: " + where})
		}
	}
}
