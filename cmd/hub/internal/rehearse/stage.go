// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
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

	leakTimeout = 15 * time.Second // for goroutines to end after their app
)

// play returns when all apps, and hub parts, are at rest or have failed, at the end of the time, or with ctx.
func (r *rehearsal) play(ctx context.Context, remotes *registry.Registry) {
	ctx, cancel := context.WithTimeout(ctx, r.For)
	defer cancel()
	apps := []*subject{r.hubParts}
	for _, s := range r.clusters {
		if err := remotes.Ensure(registry.ClusterName(s.name), s.desired); err != nil {
			r.lose(s, NotRunning, err.Error())
			continue
		}
		apps = append(apps, s)
	}
	tick, tell, hold := time.NewTicker(lookEvery), time.NewTicker(tellEvery), time.NewTicker(holdEvery)
	defer tick.Stop()
	defer tell.Stop()
	defer hold.Stop()
	all, isHeld := len(apps), true
	for isHeld && ctx.Err() == nil {
		apps = slices.DeleteFunc(apps, func(s *subject) bool { return r.isOver(s, remotes) })
		if len(apps) == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-hold.C:
			isHeld = r.isHeld(ctx, remotes)
		case <-tell.C:
			r.Progress("%d of %d apps at rest", all-len(apps), all)
		case <-tick.C:
		}
	}
	for _, s := range apps {
		r.unfinished(s, remotes)
	}
}

// isOver reports whether an app is at rest, or never will be.
func (r *rehearsal) isOver(s *subject, remotes *registry.Registry) bool {
	name := registry.ClusterName(s.name)
	runs, class, why := isRunning(s.name, remotes)
	latest := s.latest()
	switch {
	case s.lost:
		return true
	case why != "":
		r.lose(s, class, why)
		return true
	case !runs || remotes.Rounds(name).Left > 0:
		return false
	case !s.repeated.IsZero():
		quiet := r.Quiet
		if s.name == "" {
			quiet *= 2 // Hub parts report at times: the status of SyncRules after 15 seconds.
		}
		return time.Since(latest) > r.Quiet && time.Since(s.repeated) > quiet
	case time.Since(latest) > settle:
		s.repeated = time.Now()
		r.beginSecond(s.name)
		remotes.Repeat(name)
	}
	return false
}

// lose finds why the app of a Cluster does not run, and will not.
func (r *rehearsal) lose(s *subject, class Class, why string) {
	s.lost = true
	r.find(Finding{Cluster: s.name, Class: class, Detail: why})
}

// isRunning reports whether an app runs, or why it never will.
func isRunning(name string, remotes *registry.Registry) (runs bool, class Class, why string) {
	if name == "" {
		return !slices.ContainsFunc(remotes.HubParts(), func(part state.HubPartStatus) bool {
			return part.State == state.ModuleStarting || part.State == state.ModuleFailed && part.Restarts < failures
		}), "", ""
	}
	info, _ := remotes.Status(registry.ClusterName(name))
	switch {
	case info.Reason == state.ReasonOverBudget:
		return false, OverBudget, info.Message
	case info.State == state.StateFailed && info.Restarts >= failures, info.State == state.StatePaused:
		return false, NotRunning, info.Reason + ": " + info.Message
	}
	return info.State == state.StateReady, "", ""
}

func (s *subject) latest() (latest time.Time) {
	for _, rec := range s.recorders {
		rec.mu.Lock()
		if rec.latest.After(latest) {
			latest = rec.latest
		}
		rec.mu.Unlock()
	}
	return latest
}

func (r *rehearsal) unfinished(s *subject, remotes *registry.Registry) {
	if runs, _, _ := isRunning(s.name, remotes); !runs {
		info, _ := remotes.Status(registry.ClusterName(s.name))
		r.lose(s, NotRunning, "it was not ready in time: "+info.Reason+" "+info.Message)
		return
	}
	f := Finding{Cluster: s.name, Class: NotAtRest, Detail: "it wrote something new until the end"}
	if rounds := remotes.Rounds(registry.ClusterName(s.name)); rounds.Left > 0 {
		f.Detail = "not everything was reconciled twice"
		if rounds.Working > 0 {
			f.Detail = "a reconcile did not return, or " + f.Detail
		}
	}
	r.find(f)
}

// isHeld ends the apps of remotes whose policy is no longer in force, without a cleanup step, and reports whether that of the hub is.
func (r *rehearsal) isHeld(ctx context.Context, remotes *registry.Registry) bool {
	for s, why := range r.unheld(ctx) {
		if errors.Is(why, ErrNotHeld) {
			r.lose(s, NotHeld, why.Error())
			s.desired.Paused = true
			_ = remotes.Ensure(registry.ClusterName(s.name), s.desired) // It fails only at the end.
		}
	}
	if r.Trust {
		return true
	}
	why := r.holdHub(ctx)
	isHeld := !errors.Is(why, ErrNotHeld)
	if !isHeld {
		r.find(Finding{InHub: true, Class: NotHeld, Detail: why.Error()})
	}
	return isHeld
}

// leaks finds goroutines that go on after the end of their app.
func (r *rehearsal) leaks(ctx context.Context) {
	for _, s := range r.clusters {
		var left []string
		_ = wait.PollUntilContextTimeout(ctx, lookEvery, leakTimeout, true, func(context.Context) (bool, error) {
			left = registry.Goroutines(label, r.id, "cluster", s.name)
			return len(left) == 0, nil
		})
		for _, where := range left {
			r.find(Finding{Cluster: s.name, Class: Leaks, Detail: "goroutines go on after the end of the app: " + where})
		}
	}
}

// digest is that of the program.
func digest() string {
	path, err := os.Executable()
	program, unread := os.ReadFile(path)
	if err != nil || unread != nil {
		return "unknown"
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(program))[:len("sha256:")+16]
}

func (r *rehearsal) configuration() string {
	names := []string{}
	for _, m := range r.Hub.Modules {
		names = append(names, m.Name())
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text([]any{names, r.Hub.Registry.ModuleConfigs}))))[:16]
}

// finish reads what was wanted again while the apps still run.
func (r *rehearsal) finish(ctx context.Context, remotes *registry.Registry, report *Report) {
	r.notRunning(remotes)
	r.outcomes()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, rec := range r.recorders() {
		group.Go(func() error {
			changes := rec.effective(ctx)
			r.mu.Lock()
			defer r.mu.Unlock()
			report.Changes = append(report.Changes, changes...)
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	report.Load = r.load()
	r.holdsOf(report.Changes, remotes)
}

// notRunning finds modules and hub parts that do not run, but for those of an app that does not.
func (r *rehearsal) notRunning(remotes *registry.Registry) {
	for _, s := range r.clusters {
		info, _ := remotes.Status(registry.ClusterName(s.name))
		for _, m := range info.Modules {
			if m.State != state.ModuleRunning && !s.lost {
				r.find(Finding{Cluster: s.name, Module: m.Name, Class: NotRunning, Detail: fmt.Sprintf("%s: %s %s", m.State, m.Reason, m.Message)})
			}
		}
	}
	for _, part := range remotes.HubParts() {
		if part.State != state.ModuleRunning {
			r.find(Finding{Module: part.Module, Class: NotRunning, Detail: fmt.Sprintf("%s: %s %s", part.State, part.Reason, part.Message)})
		}
	}
}
