// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A part OnLeader has lives while this replica leads.

// Leader is registry.Leader.
type Leader interface {
	Await(ctx context.Context) (leads context.Context, ended func(), err error)
	Check() error
}

// tenure is a leadership, or, for a part that runs everywhere, the time of the hub.
type tenure struct {
	hub   context.Context //nolint:containedctx // Ends when the hub ends.
	leads context.Context //nolint:containedctx // Ends when this replica no longer leads; nil if the part runs everywhere.
	work  context.Context //nolint:containedctx // Ends with the first of them.
}

func (p *part) onLeader() bool { return p.module.OnLeader && p.supervisor.Leader != nil }

func (p *part) run(hub context.Context, first *Run) {
	if p.onLeader() {
		for life := first; p.lead(hub, life); life = nil {
		}
	} else {
		p.runLives(tenure{hub: hub, work: hub}, first)
	}
	p.setState(state.ModuleStopped, state.ReasonStopping, "")
}

// lead runs lives while this replica leads, and reports false at the end of the hub. life was built when the hub
// started, or is nil.
func (p *part) lead(hub context.Context, life *Run) bool {
	p.standBy()
	leads, ended, err := p.supervisor.Leader.Await(hub)
	if err != nil {
		life.discard()
		return false
	}
	work, cancel := context.WithCancelCause(hub)
	defer cancel(nil)
	defer context.AfterFunc(leads, func() { cancel(context.Cause(leads)) })()
	if !p.rest(work, 0) {
		life.discard()
		ended()
		return hub.Err() == nil
	}
	if life == nil {
		life = p.next()
	}
	p.override(state.HubPartStatus{})
	lives := p.runLives(tenure{hub: hub, leads: leads, work: work}, life)
	p.supervisor.running.Go(func() {
		lives.Wait()
		ended()
	})
	return hub.Err() == nil
}

const messageStandby = "the hub part runs in the replica that leads"

func (p *part) standBy() { p.setState(state.ModuleStandby, state.ReasonNotLeader, messageStandby) }

// stateOfModule: a module that fails while its writes are refused has not failed.
func (l *Run) stateOfModule() state.ModuleStatus {
	found := l.Modules()[0]
	if found.State == state.ModuleFailed && l.mayWrite() != nil {
		return state.ModuleStatus{State: state.ModuleStandby, Reason: state.ReasonNotLeader, Message: messageStandby}
	}
	return found
}

// runLives returns when the tenure is over; the result waits for the goroutines of all lives.
func (p *part) runLives(t tenure, life *Run) *sync.WaitGroup {
	lives := &sync.WaitGroup{}
	for {
		done := life.Done()
		lives.Go(func() { <-done })
		began := time.Now()
		err := life.run(t)
		p.unpublish(life)
		if t.hub.Err() != nil {
			return lives
		}
		var again bool
		if t.work.Err() != nil || life.wasRefused(err) {
			p.standBy()
			p.waitFor(t.hub, life)
			again = p.reopened(t, life)
		} else {
			p.failed(err, life.ready, time.Since(began))
			p.waitFor(t.hub, life)
			again = p.pause(t.work)
		}
		if !again {
			return lives
		}
		life = p.next()
	}
}

// reopened waits for a gate that closed because a renewal is late. It reports false when the tenure is over.
func (p *part) reopened(t tenure, last *Run) bool {
	again := time.NewTicker(machine.RetryBase)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-t.work.Done():
			return false
		}
		if last.mayWrite() == nil {
			p.override(state.HubPartStatus{})
			return true
		}
	}
}

// mayWrite's error matches app.ErrNotLeader. The leadership of another life does not count.
func (l *Run) mayWrite() error {
	if !l.part.onLeader() {
		return nil
	}
	t := l.tenure.Load()
	if t == nil {
		return app.ErrNotLeader // It has not begun.
	}
	// In this order: while leads has not ended, the leadership that Check knows is that of this life.
	err := l.part.supervisor.Leader.Check()
	if t.leads.Err() != nil {
		return app.ErrNotLeader
	}
	return err
}

// wasRefused: the life may have ended because its writes are refused, or were a moment ago.
func (l *Run) wasRefused(err error) bool {
	return l.mayWrite() != nil || l.part.onLeader() && errors.Is(err, app.ErrNotLeader)
}

// discard ends a life that has not run; nil has ended.
func (l *Run) discard() {
	if l == nil {
		return
	}
	l.begun.Store(true)
	l.Stop(app.ErrStopped)
	close(l.quiet)
	l.part.supervisor.running.Go(l.Finish)
}
