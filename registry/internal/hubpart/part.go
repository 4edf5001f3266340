// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// part builds and starts the hub part of one module, and again when it fails. Neither the hub nor another part waits
// for it.
type part struct {
	supervisor *Supervisor
	module     *Module
	log        logr.Logger

	mu      sync.Mutex          // protects the fields; held for a few instructions
	over    state.ModuleStatus  // replaces the state of the life; its State is empty for none
	now     state.HubPartStatus // the last published state
	lacking []string            // permissions that are declared and not granted
	report  state.ModuleStatus  // what the module lacks, as it reports; its Reason is empty for nothing
	life    *Run                // the current one; nil before the first
	zombies int
}

func newPart(s *Supervisor, m *Module) *part {
	p := &part{supervisor: s, module: m, log: s.Log.WithValues("module", m.Name)}
	p.now = state.HubPartStatus{Module: m.Name, State: state.ModuleStarting, Reason: state.ReasonStarting, Since: time.Now()}
	return p
}

func (p *part) info() state.HubPartStatus {
	p.mu.Lock()
	one, life := p.now, p.life
	one.Zombies = p.zombies
	p.mu.Unlock()
	if life != nil && life.Context().Err() == nil && one.State != state.ModuleStandby {
		one.Controllers = life.Modules()[0].Controllers // It has one module.
	}
	return one
}

func (p *part) current() *Run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// setState replaces the state of the life; the empty state clears it.
func (p *part) setState(condition, reason, message string) {
	p.override(state.ModuleStatus{State: condition, Reason: reason, Message: state.Sanitize(message)})
}

func (p *part) override(with state.ModuleStatus) {
	p.mu.Lock()
	p.over = with
	p.mu.Unlock()
	p.changed()
}

// changed computes the state, and logs a change. It follows every event that may change the state.
func (p *part) changed() {
	life := p.current()
	found := state.ModuleStatus{State: state.ModuleStarting, Reason: state.ReasonStarting}
	if life != nil {
		found = life.stateOfModule()
	}
	stuck := p.stuck()
	stale, problem := life.stale()
	p.mu.Lock()
	was, report := p.now, p.report
	found = p.stateOf(found)
	switch {
	case found.State != state.ModuleRunning:
	case stuck != "":
		found = state.ModuleStatus{State: state.ModuleDegraded, Reason: state.ReasonNoProgress, Message: stuck}
	case stale != "":
		found = state.ModuleStatus{State: state.ModuleDegraded, Reason: state.ReasonStale, Message: stale, Problem: problem}
	case report.Reason != "":
		found = report
	}
	changed := was.State != found.State || was.Reason != found.Reason
	if changed {
		p.now.Since = time.Now()
	}
	p.now.State, p.now.Reason, p.now.Message, p.now.Problem = found.State, found.Reason, found.Message, found.Problem
	p.mu.Unlock()
	if changed || was.Message != found.Message {
		p.log.Info("The state of a hub part changed", "state", found.State, "reason", found.Reason,
			"message", p.supervisor.Explain(found.Message, found.Problem))
	}
}

// stateOf needs the lock.
func (p *part) stateOf(found state.ModuleStatus) state.ModuleStatus {
	switch over := p.over; {
	// A failed part stays Failed until it runs: a part that is started every few seconds must not look healthy in
	// between.
	case over.State == state.ModuleFailed && found.State != state.ModuleStarting && found.State != state.ModuleRunning:
		return found
	case over.State != "":
		return over
	case found.State == state.ModuleRunning && len(p.lacking) > 0:
		return state.ModuleStatus{State: state.ModuleDegraded, Reason: state.ReasonRightsMissing, Message: lackOf(p.lacking)}
	}
	return found
}

func (p *part) next() *Run {
	life := newLife(p)
	p.mu.Lock()
	p.life, p.report = life, state.ModuleStatus{}
	p.mu.Unlock()
	return life
}

// reports records what the module lacks; empty for nothing. A life that has ended has no say.
func (p *part) reports(l *Run, reason, message string) {
	report := state.ModuleStatus{State: state.ModuleDegraded, Reason: reason, Message: state.Sanitize(message)}
	p.mu.Lock()
	differs := p.life == l && (p.report.Reason != report.Reason || p.report.Message != report.Message)
	if differs {
		p.report = report
	}
	p.mu.Unlock()
	if differs {
		p.changed()
	}
}

func (p *part) failed(err error, wasReady bool, after time.Duration) {
	f := app.Describe(err)
	if ofModule, ok := errors.AsType[*app.ModuleError](err); ok {
		f.Message = ofModule.Err.Error() // the part has the name
	}
	p.mu.Lock()
	if wasReady && after >= machine.RetryReset {
		p.now.Restarts = 0
	}
	p.now.Restarts++
	restarts := p.now.Restarts
	p.mu.Unlock()
	p.supervisor.Host.Metrics.CountHubPartFailure(p.module.Name, f.Reason)
	panics.WithStack(p.log, err).Error(err, "The hub part of a module failed and will be started again", "reason", f.Reason, "failures", restarts)
	p.override(state.ModuleStatus{State: state.ModuleFailed, Reason: f.Reason, Message: state.Sanitize(f.Message), Problem: f.Problem})
}

// waitFor leaves a life that is over behind after StopTimeout. It returns when the hub ends.
func (p *part) waitFor(hub context.Context, life *Run) {
	select {
	case <-life.Done():
		return
	case <-hub.Done():
		return
	case <-time.After(p.supervisor.Host.Limits.StopTimeout):
	}
	p.log.Info("A hub part does not end; it is fenced and left behind", "goroutines", life.Contained.Goroutines())
	p.leaveBehind(1)
	p.supervisor.running.Go(func() {
		<-life.Done()
		p.leaveBehind(-1)
	})
}

func (p *part) leaveBehind(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.zombies += n
}

// pause reports false if ctx ended before the part may be started again.
func (p *part) pause(ctx context.Context) bool {
	p.mu.Lock()
	delay := machine.Backoff(p.now.Restarts-1, rand.Float64())
	p.mu.Unlock()
	return p.rest(ctx, delay)
}

// rest also waits until the part may have another life beside its zombies. It reports false if ctx ended before.
func (p *part) rest(ctx context.Context, delay time.Duration) bool {
	for {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return false
		}
		p.mu.Lock()
		zombies := p.zombies
		p.mu.Unlock()
		if zombies < machine.MaxZombies {
			return ctx.Err() == nil
		}
		p.setState(state.ModuleFailed, state.ReasonModuleFailed, fmt.Sprintf("%d earlier lives of the hub part have not ended, "+
			"so it is not started again before one of them does: restart the hub", zombies))
		delay = machine.RetryBase
	}
}

// The progress of controllers shows in the state of the part, and is no reason to give up the lease.

func (p *part) stuck() string {
	names := p.supervisor.Monitor.Stuck(p.module.Name)
	if len(names) == 0 {
		return ""
	}
	return state.Sanitize("work waits, and no worker has asked for more for 30 s: each is in a reconcile that is stuck or slow: controller " +
		strings.Join(names, ", "))
}

func (s *Supervisor) progress(subject liveness.Subject) {
	for _, p := range s.all {
		if p.module.Name == subject.Module {
			p.changed()
		}
	}
}
