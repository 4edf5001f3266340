// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/state"
)

// HubPartStatus is the state of the hub part of one module in this process.
type HubPartStatus struct {
	// Module is the module's name.
	Module string
	// State is ModuleStarting, ModuleWaiting, ModuleRunning, ModuleDegraded, ModuleFailed or ModuleStopped.
	State string
	// Reason and Message say why the hub part does not run or is degraded.
	Reason, Message string
	// Problem identifies the problem, for advice that is not in Message.
	Problem state.Problem
	// Since is when State or Reason last changed.
	Since time.Time
	// Restarts counts failures in a row. A failure after ten minutes of health starts the count again.
	Restarts int
	// Zombies counts earlier lives that have not ended within the stop timeout. They are fenced.
	Zombies int
	// Controllers are the controllers that the module has added to its manager, in that order.
	Controllers []state.ControllerStatus
}

// ModuleDegraded is the state of a hub part that runs and lacks something that it needs.
const ModuleDegraded = "Degraded"

// hubPart runs the hub part of one module for one term of the hub: it builds it, starts it, and starts it again when
// it fails. Neither the hub nor another hub part waits for it.
type hubPart struct {
	parts *hubParts
	entry *entry
	log   logr.Logger

	mu      sync.Mutex    // protects the fields; held for a few instructions
	over    HubPartStatus // the state that the supervisor sets; its State is empty for none
	now     HubPartStatus // the last published state
	lacking []string      // permissions that are declared and not granted
	life    *partLife     // the current one; nil before the first
	zombies int
}

func newHubPart(parts *hubParts, e *entry) *hubPart {
	p := &hubPart{parts: parts, entry: e, log: parts.log.WithValues("module", e.name)}
	p.now = HubPartStatus{Module: e.name, State: state.ModuleStarting, Reason: state.ReasonStarting, Since: time.Now()}
	return p
}

// info returns the state of the part.
func (p *hubPart) info() HubPartStatus {
	p.mu.Lock()
	one, life := p.now, p.life
	one.Zombies = p.zombies
	p.mu.Unlock()
	if life != nil && life.Context().Err() == nil {
		one.Controllers = life.controllers()
	}
	return one
}

func (p *hubPart) current() *partLife {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// say sets the state of the part on behalf of the supervisor; the empty state clears it.
func (p *hubPart) say(condition, reason, message string) {
	p.override(HubPartStatus{State: condition, Reason: reason, Message: state.Sanitize(message)})
}

// override sets the state of the part on behalf of the supervisor.
func (p *hubPart) override(with HubPartStatus) {
	p.mu.Lock()
	p.over = with
	p.mu.Unlock()
	p.changed()
}

// changed computes the state of the part, and logs it if it has changed. It is called after every event that may
// change the state.
func (p *hubPart) changed() {
	p.mu.Lock()
	life := p.life
	p.mu.Unlock()
	found := state.ModuleStatus{State: state.ModuleStarting, Reason: state.ReasonStarting}
	if life != nil {
		found = life.Modules()[0]
	}
	stuck := p.stuck()
	stale, problem := life.stale()
	p.mu.Lock()
	was := p.now
	found = p.stateOf(found)
	switch {
	case found.State != state.ModuleRunning:
	case stuck != "":
		found = state.ModuleStatus{State: ModuleDegraded, Reason: state.ReasonNoProgress, Message: stuck}
	case stale != "":
		found = state.ModuleStatus{State: ModuleDegraded, Reason: state.ReasonStale, Message: stale, Problem: problem}
	}
	changed := was.State != found.State || was.Reason != found.Reason
	if changed {
		p.now.Since = time.Now()
	}
	p.now.State, p.now.Reason, p.now.Message, p.now.Problem = found.State, found.Reason, found.Message, found.Problem
	p.mu.Unlock()
	if changed || was.Message != found.Message {
		p.log.Info("The state of a hub part changed", "state", found.State, "reason", found.Reason,
			"message", p.parts.explained(found.Message, found.Problem))
		p.parts.changed()
	}
}

// stateOf returns the state of the part from the state of its life. The caller holds the lock.
func (p *hubPart) stateOf(found state.ModuleStatus) state.ModuleStatus {
	over := state.ModuleStatus{State: p.over.State, Reason: p.over.Reason, Message: p.over.Message, Problem: p.over.Problem}
	switch {
	// A failed part stays Failed until it runs: a part that is started every few seconds must not look healthy in
	// between.
	case over.State == state.ModuleFailed && found.State != state.ModuleStarting && found.State != state.ModuleRunning:
		return found
	case over.State != "":
		return over
	case found.State == state.ModuleRunning && len(p.lacking) > 0:
		return state.ModuleStatus{State: ModuleDegraded, Reason: state.ReasonRightsMissing, Message: lackOf(p.lacking)}
	}
	return found
}

// run runs one life after the other until ctx ends.
func (p *hubPart) run(ctx context.Context, first *partLife) {
	for life := first; ; life = p.next() {
		began := time.Now()
		err := life.run(ctx)
		p.unpublish(life)
		if ctx.Err() != nil {
			p.say(state.ModuleStopped, state.ReasonStopping, "")
			return
		}
		p.failed(err, life.ready, time.Since(began))
		p.waitFor(life)
		if !p.pause(ctx) {
			return
		}
	}
}

// next returns a new life, which has not begun.
func (p *hubPart) next() *partLife {
	life := newPartLife(p)
	p.mu.Lock()
	p.life = life
	p.mu.Unlock()
	return life
}

// failed records the failure of a life.
func (p *hubPart) failed(err error, wasReady bool, after time.Duration) {
	f := app.Describe(err)
	var ofModule *app.ModuleError
	if errors.As(err, &ofModule) {
		f.Message = ofModule.Err.Error() // the part has the name
	}
	p.mu.Lock()
	if wasReady && after >= machine.RetryReset {
		p.now.Restarts = 0
	}
	p.now.Restarts++
	restarts := p.now.Restarts
	p.mu.Unlock()
	p.parts.host.Metrics.CountHubPartFailure(p.entry.name, f.Reason)
	log := p.log
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		log = log.WithValues("stack", string(panicked.Stack))
	}
	log.Error(err, "The hub part of a module failed and will be started again", "reason", f.Reason, "failures", restarts)
	p.override(HubPartStatus{State: state.ModuleFailed, Reason: f.Reason, Message: state.Sanitize(f.Message), Problem: f.Problem})
}

// waitFor waits for the end of a failed life, and leaves the life behind after StopTimeout.
func (p *hubPart) waitFor(life *partLife) {
	patience := time.NewTimer(p.parts.host.Limits.StopTimeout)
	defer patience.Stop()
	select {
	case <-life.Done():
		return
	case <-patience.C:
	}
	p.log.Info("A hub part does not end; it is fenced and left behind", "goroutines", life.Contained().Goroutines())
	p.leaveBehind(1)
	p.parts.running.Go(func() {
		<-life.Done()
		p.leaveBehind(-1)
	})
}

func (p *hubPart) leaveBehind(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.zombies += n
}

// pause waits until the part may be started again, and reports false if ctx ended before that.
func (p *hubPart) pause(ctx context.Context) bool {
	p.mu.Lock()
	delay := machine.Backoff(p.now.Restarts-1, rand.Float64())
	p.mu.Unlock()
	for {
		again := time.NewTimer(delay)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return false
		}
		p.mu.Lock()
		zombies := p.zombies
		p.mu.Unlock()
		if zombies < machine.MaxZombies {
			return true
		}
		p.say(state.ModuleFailed, state.ReasonModuleFailed, fmt.Sprintf("%d earlier lives of the hub part have not ended, "+
			"so it is not started again before one of them does: restart the hub", zombies))
		delay = machine.RetryBase
	}
}
