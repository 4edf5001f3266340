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

// This file limits the lives of a part OnLeader to the time in which this replica leads.

// Leader is registry.Leader.
type Leader interface {
	Await(ctx context.Context) (leads context.Context, ended func(), err error)
	Check() error
}

// tenure is a time in which a part runs lives: a leadership of this replica, or, for a part that runs everywhere, the time of
// the hub.
type tenure struct {
	hub   context.Context //nolint:containedctx // Ends when the hub ends.
	leads context.Context //nolint:containedctx // Ends when this replica no longer leads; nil if the part runs everywhere.
	work  context.Context //nolint:containedctx // Ends with the first of them.
}

// onLeader reports whether the part runs only while this replica leads.
func (p *part) onLeader() bool { return p.module.OnLeader && p.supervisor.Leader != nil }

// run runs the lives of the part until the hub ends.
func (p *part) run(hub context.Context, first *Life) {
	if p.onLeader() {
		for life := first; p.lead(hub, life); life = nil {
		}
	} else {
		p.runLives(tenure{hub: hub, work: hub}, first)
	}
	p.setState(state.ModuleStopped, state.ReasonStopping, "")
}

// lead waits until this replica leads, and runs lives until it no longer does. It reports false when the hub has ended. The
// life is the first one, which was built when the hub started, or nil.
func (p *part) lead(hub context.Context, life *Life) bool {
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

// messageStandby is the message of a part that waits until this replica leads.
const messageStandby = "the hub part runs in the replica that leads"

// standBy records that the part waits until this replica leads.
func (p *part) standBy() { p.setState(state.ModuleStandby, state.ReasonNotLeader, messageStandby) }

// stateOfModule returns the state of the module in the life. A module that fails while its writes are refused has not failed.
func (l *Life) stateOfModule() state.ModuleStatus {
	found := l.Modules()[0]
	if found.State == state.ModuleFailed && l.mayWrite() != nil {
		return state.ModuleStatus{State: state.ModuleStandby, Reason: state.ReasonNotLeader, Message: messageStandby}
	}
	return found
}

// runLives runs one life after the other until the tenure is over. The result waits until the goroutines of all of them have
// ended.
func (p *part) runLives(t tenure, life *Life) *sync.WaitGroup {
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

// reopened returns when a tenure whose gate was closed continues: a gate that is closed because a renewal is late opens with the
// next renewal. It reports false when the tenure is over.
func (p *part) reopened(t tenure, last *Life) bool {
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

// mayWrite returns an error that matches app.ErrNotLeader unless the life may write at this moment. The leadership of another
// life does not count.
func (l *Life) mayWrite() error {
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

// wasRefused reports whether a life may have ended with an error because its writes are refused, or were a moment ago.
func (l *Life) wasRefused(err error) bool {
	return l.mayWrite() != nil || l.part.onLeader() && errors.Is(err, app.ErrNotLeader)
}

// discard ends a life that has not run. The nil life has ended.
func (l *Life) discard() {
	if l == nil {
		return
	}
	l.begun.Store(true)
	l.Stop(app.ErrStopped)
	close(l.quiet)
	l.part.supervisor.running.Go(l.Finish)
}
