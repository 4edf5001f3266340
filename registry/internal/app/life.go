// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/dig"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterfx/clusterfx/registry/eventseries"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Life is one life of an App whose modules are contained: an Epoch, or a life of a hub part. Its context is its fence:
// the clients of the modules check it right before they send.
type Life struct {
	*Common
	LifeOptions
	labels []string // of its goroutines in profiles, as keys and values

	ctx        context.Context //nolint:containedctx // See above.
	cancel     context.CancelCauseFunc
	permission *contain.Gate
	contained  *contain.App // contains the panics of its modules

	// failing ends, with the cause, when the manager has ended, a module has failed, or the Life has ended.
	failing context.Context //nolint:containedctx // See above.
	failed  context.CancelCauseFunc

	graph    graphLog
	tracker  *tracker
	hooks    hooks
	sources  sources
	intake   *meter.Limiter
	cache    atomic.Pointer[cache.Cache] // nil until it is made
	events   lateRecorder
	building *running      // the graph; nil until it was begun
	manager  *running      // nil until it was started
	done     chan struct{} // closed when all goroutines of the Life have ended
}

// LifeOptions describe one Life. All fields but Name, Filters and ControllerAdded are required.
type LifeOptions struct {
	Name        state.ClusterName
	Number      int64
	Log         logr.Logger
	ModuleNames []string
	Timeout     time.Duration
	Collectors  *Registerer
	// Unstreamed is what the API server cannot stream. Default: the cache's own memory.
	Unstreamed *Unstreamed
	// Undeclared explains why informers are refused.
	Undeclared Undeclared
	Filters    func() []ModuleFilters
	// Changed is called when the App has made progress or a module has failed. It must return at once.
	Changed func()
	// Missed is called if the API server does not serve a kind that a module watches. It must return at once.
	Missed func()
	// ControllerAdded is called for each controller that a module adds. Default: nil.
	ControllerAdded func(controller manager.Runnable, name string)
}

// ModuleFilters are the filters of one module.
type ModuleFilters struct {
	Module  string
	Filters []cache.Filter
}

// NewLife returns a Life that has not started. labels are for profiles of its goroutines, beside its number.
func NewLife(host *Common, o LifeOptions, labels ...string) *Life {
	l := &Life{}
	l.init(host, o, labels)
	return l
}

func (l *Life) init(host *Common, o LifeOptions, labels []string) {
	l.Common, l.LifeOptions, l.done = host, o, make(chan struct{})
	l.labels = append(labels, "epoch", strconv.FormatInt(l.Number, 10))
	l.ctx, l.cancel = context.WithCancelCause(pprof.WithLabels(host.Root, pprof.Labels(l.labels...)))
	l.failing, l.failed = context.WithCancelCause(l.ctx)
	l.permission = contain.NewGate(l.ctx)
	l.Log = logsink.QuietAfter(l.permission.Ended, l.Log, ErrStopped, context.Canceled)
	l.graph.log = l.Log.WithName("fx")
	l.hooks.log, l.hooks.timeout = l.Log, host.Limits.StopTimeout
	l.tracker = newTracker(o.ModuleNames, host.Limits.SyncTimeout, o.Changed)
	l.intake = meter.NewLimiter(host.Schemas, int64(host.Limits.MaxCacheBytes))
	l.contained = &contain.App{
		Name: string(l.Name), Number: l.Number, Context: l.ctx, Gate: l.permission, Labels: l.labels,
		ReconcileTimeout: host.Limits.ReconcileTimeout, Metrics: host.Metrics, Tracer: host.Tracer, Queues: host.Queues,
		Fail: func(module string, err error) {
			l.fail(&ModuleError{Module: module, Reason: state.ReasonModuleFailed, Err: err})
		},
		Failed: func(module string, err error) error {
			failed := &ModuleError{Module: module, Reason: state.ReasonModuleFailed, Err: err}
			l.moduleFailed(failed)
			return failed
		},
		Blind:             l.Blind,
		IsBroken:          l.tracker.isBroken,
		ControllerAdded:   l.controllerAdded,
		ControllerRefused: l.tracker.controllerRefused,
		ControllerSynced:  l.tracker.controllerSynced,
		TakeUnsupervised:  l.tracker.takeUnsupervised,
	}
	// Not when the App has ended: the next App may start before that, and registers the same collectors.
	context.AfterFunc(l.ctx, o.Collectors.end)
}

func (l *Life) controllerAdded(module string, r manager.Runnable, supervised bool) *cache.Controller {
	known := l.tracker.controllerAdded(module, r, supervised)
	if l.ControllerAdded != nil {
		l.ControllerAdded(r, known.Name)
	}
	return known
}

// Context returns the context of the Life. Its cause tells why it has ended.
func (l *Life) Context() context.Context { return l.ctx }

// Stop fences the Life: it sends no further request, its contexts have ended, and the goroutine that runs it cleans up.
// Stop returns at once, and may be called again.
func (l *Life) Stop(cause error) { l.cancel(cause) }

// Done returns a channel that is closed when all goroutines of the Life have ended.
func (l *Life) Done() <-chan struct{} { return l.done }

// Modules returns the state of each module, sorted by name.
func (l *Life) Modules() []state.ModuleStatus { return l.tracker.list() }

// Waiting returns the condition of a starting App that waits for objects which it cannot list; empty otherwise.
func (l *Life) Waiting() state.Condition { return l.tracker.waiting() }

// Contained returns what the wrappers around the code of modules know of the App.
func (l *Life) Contained() *contain.App { return l.contained }

// Guard returns the guard that contains the code of a module.
func (l *Life) Guard(module string) *contain.Container { return l.guard(module, l.Log) }

func (l *Life) guard(module string, log logr.Logger) *contain.Container {
	return contain.NewContainer(l.contained, module, log)
}

// Permit lets the controllers of the modules work.
func (l *Life) Permit() { l.permission.Open() }

// Revoke ends the controllers of the modules. It returns when their runnables have ended, or after a time.
func (l *Life) Revoke(atMost time.Duration) { l.permission.Close(atMost) }

// Events returns the recorder of the App's events. It drops events until the manager runs.
func (l *Life) Events() events.EventRecorder { return &l.events }

// SetRecorder sets the recorder of a manager as the recorder of the App's events.
func (l *Life) SetRecorder(mgr ctrl.Manager) {
	l.events.EventRecorder = eventseries.ByNote(mgr.GetEventRecorder("clusterfx"), mgr.GetScheme())
}

func (l *Life) moduleFailed(failed *ModuleError) {
	var ours *panics.Error
	var ofGraph dig.PanicError
	if errors.As(failed, &ours) || errors.As(failed, &ofGraph) {
		l.Metrics.CountPanic(string(l.Name), failed.Module)
	}
	l.tracker.moduleFailed(failed)
}

// Build starts to build the graph: f makes the values of the App and calls BuildGraph.
func (l *Life) Build(f func() error) { l.building = start(f, nil) }

// Built returns a channel that is closed when the graph is built or has failed; nil before Build.
func (l *Life) Built() <-chan struct{} {
	if l.building == nil {
		return nil
	}
	return l.building.done
}

// BuildError returns the error of the graph. Call it after Built is closed.
func (l *Life) BuildError() error { return l.building.err }

// AwaitGraph returns when the graph is built, or when that took too long because a constructor does not return.
func (l *Life) AwaitGraph() error {
	patience := time.NewTimer(l.Limits.StartTimeout)
	defer patience.Stop()
	select {
	case <-l.building.done:
		return l.building.err
	case <-patience.C:
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
	var failed *ModuleError
	if errors.As(err, &failed) && l.ctx.Err() == nil {
		l.moduleFailed(failed)
	}
	return err
}

// StopHooks runs the OnStop hooks of the modules whose OnStart hooks have run, until ctx ends.
func (l *Life) StopHooks(ctx context.Context) error { return l.hooks.stop(ctx) }

// StartManager starts the manager, which runs until ctx ends.
func (l *Life) StartManager(ctx context.Context, mgr ctrl.Manager) {
	l.events.open()
	l.manager = start(func() error {
		pprof.SetGoroutineLabels(l.ctx)
		return mgr.Start(ctx)
	}, func(err error) { l.failed(managerError(err)) })
}

// AwaitManager returns when the manager has ended, or after a time. It returns at once if the manager was not started.
func (l *Life) AwaitManager(atMost time.Duration) { l.manager.wait(atMost) }

// fail is for goroutines whose error the manager does not return. The first failure counts.
func (l *Life) fail(err *ModuleError) {
	l.tracker.fail(err)
	l.failed(err)
}

// AwaitFailure returns when the manager has ended, or a module has failed, or ctx has ended, with the cause.
func (l *Life) AwaitFailure(ctx context.Context) error {
	select {
	case <-l.failing.Done():
		return context.Cause(l.failing)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// OnFailure calls f with the cause as soon as AwaitFailure would return. Until then nothing waits.
func (l *Life) OnFailure(f func(error)) {
	context.AfterFunc(l.failing, func() {
		pprof.SetGoroutineLabels(l.ctx)
		f(context.Cause(l.failing))
	})
}

// AwaitSync returns when every runnable has started and every controller has its initial objects, or with the cause why
// not.
func (l *Life) AwaitSync(ctx context.Context, mgr ctrl.Manager) error {
	elected := mgr.Elected()
	patience := time.NewTicker(l.Limits.SyncTimeout)
	defer patience.Stop()
	for {
		select {
		case <-patience.C:
			if err := l.tracker.timedOut(l.Limits.SyncTimeout); err != nil {
				return err
			}
		case <-elected: // every runnable was started
			elected = nil
			l.tracker.managerStarted()
		case <-l.tracker.synced:
			return nil
		case <-l.failing.Done():
			return context.Cause(l.failing)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Finish returns when all goroutines of the Life have ended, and closes Done. The caller has stopped the Life.
func (l *Life) Finish() {
	l.building.wait(Never)
	l.manager.wait(Never)
	l.Collectors.end()
	l.hooks.end() // also hooks that have timed out
	l.sources.end()
	close(l.done)
}

// running is a goroutine that was started and will end.
type running struct {
	done chan struct{}
	err  error // read it only after done
}

// wait returns at once if no goroutine was started.
func (r *running) wait(atMost time.Duration) {
	if r == nil {
		return
	}
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	select {
	case <-r.done:
	case <-patience.C:
	}
}

// start calls ended, which may be nil, when f has returned.
func start(f func() error, ended func(error)) *running {
	r := &running{done: make(chan struct{}), err: contain.ErrGoexit} // unless f returns
	go func() {
		defer func() {
			close(r.done)
			if ended != nil {
				ended(r.err)
			}
		}()
		r.err = panics.Catch(f)
	}()
	return r
}

func managerError(err error) error {
	if err == nil {
		return errManagerEnded
	}
	return fmt.Errorf("%w: %w", errManagerEnded, err)
}

// Never is longer than any hub lives.
const Never = 100 * 365 * 24 * time.Hour
