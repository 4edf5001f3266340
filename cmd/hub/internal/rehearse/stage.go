// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	lookEvery = 250 * time.Millisecond
	settle    = time.Second      // between the first round and the second
	holdEvery = time.Minute      // between two looks whether the policy is in force
	tellEvery = 10 * time.Second // between two lines of progress
	failures  = 3                // of an app that does not start
)

// stage is an app on its way to rest; the app without a name is that of all hub parts.
type stage struct {
	name     string
	repeated time.Time // when its controllers began to do everything again
	over     bool
}

// play returns when all apps are at rest or have failed, at the end of the time, or with ctx.
func (r *rehearsal) play(ctx context.Context, remotes *registry.Registry) {
	ctx, cancel := context.WithTimeout(ctx, r.For)
	defer cancel()
	stages := []*stage{{}}
	for _, s := range r.clusters {
		if err := remotes.Ensure(registry.ClusterName(s.name), s.desired); err != nil {
			r.find(Finding{Cluster: s.name, Class: NotRunning, Detail: err.Error()})
			continue
		}
		stages = append(stages, &stage{name: s.name})
	}
	tick, tell := time.NewTicker(lookEvery), time.NewTicker(tellEvery)
	defer tick.Stop()
	defer tell.Stop()
	held := time.Now()
	for {
		if !r.advance(stages, remotes) {
			return
		}
		if time.Since(held) > holdEvery {
			r.stayHeld(ctx, remotes)
			held = time.Now()
		}
		select {
		case <-ctx.Done():
			r.unfinished(stages, remotes)
			return
		case <-tell.C:
			r.Progress("%d of %d apps at rest", len(stages)-waiting(stages), len(stages))
		case <-tick.C:
		}
	}
}

func waiting(stages []*stage) (n int) {
	for _, s := range stages {
		if !s.over {
			n++
		}
	}
	return n
}

// advance reports whether an app is not at rest.
func (r *rehearsal) advance(stages []*stage, remotes *registry.Registry) bool {
	for _, s := range stages {
		if s.over {
			continue
		}
		runs, failed := r.state(s.name, remotes)
		rounds, latest := remotes.Rounds(registry.ClusterName(s.name)), r.latest(s.name)
		switch {
		case failed != "":
			s.over = true
			r.find(Finding{Cluster: s.name, Class: NotRunning, Detail: failed})
		case !runs || rounds.Left > 0:
		case s.repeated.IsZero():
			if time.Since(latest) > settle {
				s.repeated = time.Now()
				r.beginSecond(s.name)
				remotes.Repeat(registry.ClusterName(s.name))
			}
		case time.Since(latest) > r.Quiet && time.Since(s.repeated) > r.Quiet:
			s.over = true
		}
	}
	return waiting(stages) > 0
}

// state reports whether an app runs, or why it never will.
func (r *rehearsal) state(name string, remotes *registry.Registry) (runs bool, failed string) {
	if name == "" {
		for _, part := range remotes.HubParts() {
			if part.State == state.ModuleStarting || part.State == state.ModuleFailed && part.Restarts < failures {
				return false, ""
			}
		}
		return true, ""
	}
	info, _ := remotes.Status(registry.ClusterName(name))
	if info.State == state.StateFailed && info.Restarts >= failures || info.State == state.StatePaused {
		return false, info.Reason + ": " + info.Message
	}
	return info.State == state.StateReady, ""
}

func (r *rehearsal) latest(name string) (latest time.Time) {
	for _, rec := range r.of(name) {
		rec.mu.Lock()
		if rec.latest.After(latest) {
			latest = rec.latest
		}
		rec.mu.Unlock()
	}
	return latest
}

func (r *rehearsal) unfinished(stages []*stage, remotes *registry.Registry) {
	for _, s := range stages {
		if s.over {
			continue
		}
		runs, _ := r.state(s.name, remotes)
		rounds := remotes.Rounds(registry.ClusterName(s.name))
		f := Finding{Cluster: s.name, Class: NotAtRest, Detail: "it wrote something new until the end"}
		switch {
		case !runs:
			info, _ := remotes.Status(registry.ClusterName(s.name))
			f.Class, f.Detail = NotRunning, "it was not ready in time: "+info.Reason+" "+info.Message
		case rounds.Left > 0 && rounds.Working > 0:
			f.Detail = "a reconcile did not return, or not everything was reconciled twice"
		case rounds.Left > 0:
			f.Detail = "not everything was reconciled twice"
		}
		r.find(f)
	}
}

// stayHeld ends the apps of remotes whose policy is no longer in force, without a cleanup step.
func (r *rehearsal) stayHeld(ctx context.Context, remotes *registry.Registry) {
	for _, s := range r.clusters {
		if r.Trust || s.desired.Paused {
			continue
		}
		if why := Held(ctx, s.transport, s.desired.Endpoint.Server); why != nil && ctx.Err() == nil {
			s.desired.Paused = true
			_ = remotes.Ensure(registry.ClusterName(s.name), s.desired) // It fails only at the end.
			r.find(Finding{Cluster: s.name, Class: NotHeld, Detail: why.Error()})
		}
	}
}

func (r *rehearsal) begin() *Report {
	return &Report{
		Version: project.Version(), Digest: digest(), Configuration: r.configuration(), Clusters: []string{}, Changes: []Change{},
		Findings: []Finding{},
	}
}

const unknown = "unknown"

// digest is that of the program.
func digest() string {
	path, err := os.Executable()
	if err != nil {
		return unknown
	}
	file, err := os.Open(path)
	if err != nil {
		return unknown
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	if errors.Join(err, file.Close()) != nil {
		return unknown
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))[:16]
}

func (r *rehearsal) configuration() string {
	names := []string{}
	for _, m := range r.Hub.Modules {
		names = append(names, m.Name())
	}
	text, err := json.Marshal([]any{names, r.Hub.Registry.ModuleConfigs})
	if err != nil {
		return unknown
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// finish reads what was wanted again, while the apps still run.
func (r *rehearsal) finish(ctx context.Context, remotes *registry.Registry, report *Report) {
	r.mu.Lock()
	recorders := make([]*recorder, 0, len(r.recorders))
	for _, rec := range r.recorders {
		recorders = append(recorders, rec)
	}
	r.mu.Unlock()
	r.notRunning(remotes)
	r.outcomes()
	values := &secrets{marks: map[string]string{}}
	var reading sync.WaitGroup
	for _, rec := range recorders {
		reading.Go(func() {
			changes := rec.effective(ctx, values)
			r.mu.Lock()
			defer r.mu.Unlock()
			report.Changes = append(report.Changes, changes...)
		})
	}
	reading.Wait()
	for _, rec := range recorders {
		rec.mu.Lock()
		report.Findings = slices.AppendSeq(report.Findings, maps.Keys(rec.findings))
		rec.mu.Unlock()
	}
	r.holdsOf(report.Changes, remotes)
	for _, s := range r.clusters {
		report.Clusters = append(report.Clusters, s.name)
	}
	slices.Sort(report.Clusters)
	r.mu.Lock()
	report.Findings = append(report.Findings, r.findings...)
	r.mu.Unlock()
	report.sort()
	values.number(report.Changes)
	if r.Cost {
		report.Cost = costs(recorders)
	}
}

func costs(recorders []*recorder) map[string]map[string]Cost {
	all := map[string]map[string]Cost{}
	for _, rec := range recorders {
		rec.mu.Lock()
		for label, one := range rec.cost {
			if rec.inHub {
				label += " in the hub"
			}
			if all[rec.cluster] == nil {
				all[rec.cluster] = map[string]Cost{}
			}
			all[rec.cluster][label] = one
		}
		rec.mu.Unlock()
	}
	return all
}

// notRunning finds modules that do not run here and do in the running hub, and hub parts that do not run.
func (r *rehearsal) notRunning(remotes *registry.Registry) {
	for _, s := range r.clusters {
		info, _ := remotes.Status(registry.ClusterName(s.name))
		for _, m := range info.Modules {
			if m.State == state.ModuleRunning {
				continue
			}
			r.find(Finding{Cluster: s.name, Module: m.Name, Class: NotRunning, Detail: fmt.Sprintf("%s: %s %s", m.State, m.Reason, m.Message)})
		}
	}
	for _, part := range remotes.HubParts() {
		if part.State != state.ModuleRunning {
			r.find(Finding{Module: part.Module, Class: NotRunning, Detail: fmt.Sprintf("%s: %s %s", part.State, part.Reason, part.Message)})
		}
	}
}
