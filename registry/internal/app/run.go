// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Run builds and starts the app of a remote, and returns when it is ready or has failed. ready is called when it is
// ready, ended if it fails, then or later. A failed or stopped Life cleans up: see Done.
func (l *Life) Run(ready func(), ended func(error)) {
	pprof.SetGoroutineLabels(l.ctx) // and of all goroutines that this goroutine starts; see contain.App.Goroutines
	record := &record{}
	finish := func(err error) {
		if l.ctx.Err() == nil {
			ended(err)
		}
		record.close()
		l.cleanUp()
	}
	err := contain.ErrGoexit // unless the start returns
	defer func() {
		if err != nil {
			finish(err)
		}
	}()
	if err = panics.Catch(func() error {
		return l.stage(l.ctx, "app.start", func(ctx context.Context) error { return l.start(ctx, record) })
	}); err != nil {
		return
	}
	l.Log.Info("The app is Ready", "warm", l.Desired.Warm)
	ready()
	record.closeAfter(provenAfter)
	context.AfterFunc(l.failing, func() { // An app that runs needs no goroutine that waits for its end.
		pprof.SetGoroutineLabels(l.ctx)
		finish(context.Cause(l.failing))
	})
}

// start returns when every hook has run and every controller has its objects. ctx is l.ctx, with the span of the start.
func (l *Life) start(ctx context.Context, r *record) error {
	var release func()
	alone := l.Remote.Rank == startqueue.RankSuspect
	if alone {
		l.Log.Info("The app is a suspect and waits to start alone: processes of the hub have ended while it started")
	}
	err := l.stage(ctx, "app.turn", func(context.Context) (err error) {
		release, err = l.Starts.Acquire(l.ctx, l.Remote.Rank)
		return err
	})
	if err != nil {
		return err
	}
	began := time.Now()
	l.Log.Info("The app starts", "alone", alone)
	end := l.Journal.begin(l.ctx, l.Name, alone, l.Log)
	if alone {
		// It starts alone until it has proven itself.
		r.end = func() { end(); release() }
	} else {
		defer release()
		r.end = end
	}
	if err := l.stage(ctx, "app.connect", l.connect); err != nil {
		return err
	}
	if err := l.stage(ctx, "app.build", func(context.Context) error { return l.build() }); err != nil {
		return err
	}
	if err := l.stage(ctx, "app.hooks", func(context.Context) error { return l.StartHooks() }); err != nil {
		return err
	}
	l.StartManager(l.ctx)
	r.closeAfter(provenUnreadyAfter)
	if err := l.stage(ctx, "app.sync", l.AwaitSync); err != nil {
		return err
	}
	l.Metrics.ObserveStart(time.Since(began))
	return nil
}

func (l *Life) build() error {
	l.Build(func() error { return l.BuildGraph(l.Remote.Graph(l)) })
	if err := l.AwaitGraph(); err != nil {
		return err
	}
	l.Remote.Built(l.Steps())
	return nil
}

// Build starts to build the graph: f makes the manager and calls BuildGraph.
func (l *Life) Build(f func() error) { l.Building = run(f, nil) }

// AwaitGraph returns when the graph is built, or when that took too long because a constructor does not return.
func (l *Life) AwaitGraph() error {
	select {
	case <-l.Building.Done:
		return l.Building.Err
	case <-time.After(l.Limits.StartTimeout):
		return &ModuleError{
			Module: l.graph.current(), Reason: state.ReasonBuildFailed,
			Err: fmt.Errorf("a constructor or invoke did not return within %s", l.Limits.StartTimeout),
		}
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// StartHooks runs the modules' OnStart hooks within StartTimeout.
func (l *Life) StartHooks() error {
	ctx, cancel := context.WithTimeoutCause(l.ctx, l.Limits.StartTimeout,
		fmt.Errorf("the start timeout of %s has ended", l.Limits.StartTimeout))
	defer cancel()
	err := l.hooks.start(ctx)
	if failed, ok := errors.AsType[*ModuleError](err); ok && l.ctx.Err() == nil {
		l.moduleFailed(failed)
	}
	return err
}

// StartManager starts the manager, which runs until ctx ends.
func (l *Life) StartManager(ctx context.Context) {
	l.Events.open()
	l.Managing = run(func() error {
		pprof.SetGoroutineLabels(l.ctx)
		return l.manager.Start(ctx)
	}, func(err error) { l.failed(managerError(err)) })
}

// AwaitSync returns when every runnable has started and every controller has its initial objects, or with the cause why
// not.
func (l *Life) AwaitSync(ctx context.Context) error {
	elected := l.manager.Elected()
	patience := time.NewTicker(l.Limits.SyncTimeout)
	defer patience.Stop()
	for {
		select {
		case <-patience.C:
			if err := l.timedOut(); err != nil {
				return err
			}
		case <-elected: // every runnable was started
			elected = nil
			l.managerStarted()
		case <-l.synced:
			return nil
		case <-l.failing.Done():
			return context.Cause(l.failing)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cleanUp gives the manager half of the stop timeout, then the hooks the other half. If a goroutine hangs for longer,
// the actor leaves the Life behind as a fenced zombie.
func (l *Life) cleanUp() {
	l.Stop(ErrStopped)
	defer l.Finish()
	_ = l.stage(l.ctx, "app.stop", func(context.Context) error {
		half := l.Limits.StopTimeout / 2
		l.Managing.Wait(half)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), half)
		defer cancel()
		if err := l.StopHooks(ctx); err != nil {
			l.Log.Error(err, "Some modules did not stop cleanly")
		}
		l.Building.Wait(Never)
		l.Managing.Wait(Never)
		return nil
	})
}

// StopHooks runs the OnStop hooks of the modules whose OnStart hooks have run, until ctx ends.
func (l *Life) StopHooks(ctx context.Context) error { return l.hooks.stop(ctx) }

// Finish returns when all goroutines of the Life have ended, and closes Done. The caller has stopped the Life.
func (l *Life) Finish() {
	l.Building.Wait(Never)
	l.Managing.Wait(Never)
	l.Collectors.end()
	l.hooks.end() // also hooks that have timed out
	close(l.done)
}
