// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Turn is registry.Turn.
type Turn interface {
	Await(ctx context.Context) (turn context.Context, ended func(), err error)
	Check() error
	Count() (answered func())
}

// turn is one turn, or, for a part without a Turn, the time of the hub.
type turn struct {
	hub   context.Context //nolint:containedctx // Ends when the hub ends.
	lasts context.Context //nolint:containedctx // Ends with the turn; nil without a Turn.
	work  context.Context //nolint:containedctx // Ends with the first of them.
}

func (p *part) run(hub context.Context, first *Run) {
	if p.module.Turn != nil {
		for life := first; p.takeTurn(hub, life); life = nil {
		}
	} else {
		p.runLives(turn{hub: hub, work: hub}, first)
	}
	p.setState(state.ModuleStopped, state.ReasonStopping, "")
}

// takeTurn runs lives in the next turn, and reports false at the end of the hub. life was built when the hub started, or
// is nil.
func (p *part) takeTurn(hub context.Context, life *Run) bool {
	p.standBy()
	lasts, ended, err := p.module.Turn.Await(hub)
	if err != nil {
		life.discard()
		return false
	}
	work, end := transport.Within(hub, lasts)
	defer end()
	if !p.rest(work, 0) {
		life.discard()
		ended()
		return hub.Err() == nil
	}
	if life == nil {
		life = p.next()
	}
	p.override(state.ModuleStatus{})
	lives := p.runLives(turn{hub: hub, lasts: lasts, work: work}, life)
	p.supervisor.running.Go(func() {
		lives.Wait()
		ended()
	})
	return hub.Err() == nil
}

const messageStandby = "it is not the turn of this replica to run the hub part"

func (p *part) standBy() { p.setState(state.ModuleStandby, state.ReasonStandby, messageStandby) }

// stateOfModule: a module that fails while its writes are refused has not failed.
func (l *Run) stateOfModule() state.ModuleStatus {
	found := l.Modules()[0]
	if found.State == state.ModuleFailed && l.mayWrite() != nil {
		return state.ModuleStatus{State: state.ModuleStandby, Reason: state.ReasonStandby, Message: messageStandby}
	}
	return found
}

// runLives returns when the turn is over; the result waits for the goroutines of all lives.
func (p *part) runLives(t turn, life *Run) *sync.WaitGroup {
	lives := &sync.WaitGroup{}
	for {
		done := life.Done()
		lives.Go(func() { <-done })
		began := time.Now()
		err := life.run(t)
		if life.ready {
			life.hooks.Ended()
		}
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

// reopened waits for a gate that closed because a renewal is late. It reports false when the turn is over.
func (p *part) reopened(t turn, last *Run) bool {
	err := wait.PollUntilContextCancel(t.work, machine.RetryBase, false, func(context.Context) (bool, error) {
		return last.mayWrite() == nil, nil
	})
	if err == nil {
		p.override(state.ModuleStatus{})
	}
	return err == nil
}

// mayWrite's error matches app.ErrStandby. The turn of another life does not count.
func (l *Run) mayWrite() error {
	if l.part.module.Turn == nil {
		return nil
	}
	t := l.turn.Load()
	if t == nil {
		return app.ErrStandby // It has not begun.
	}
	// In this order: while lasts has not ended, the turn that Check knows is that of this life.
	err := l.part.module.Turn.Check()
	if t.lasts.Err() != nil {
		return app.ErrStandby
	}
	return err
}

// wasRefused: the life may have ended because its writes are refused, or were a moment ago.
func (l *Run) wasRefused(err error) bool {
	return l.mayWrite() != nil || l.part.module.Turn != nil && errors.Is(err, app.ErrStandby)
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
