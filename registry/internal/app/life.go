// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/dig"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/restmapper"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/liveness"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Life is one life of an App whose modules are contained: of the app of a remote, or of a hub part. It owns everything
// that can act in it, and runs once. Its context is its fence: the clients check it right before they send.
type Life struct {
	*Common
	Options
	*tracker // of what the modules wait for
	// Contained is what the wrappers around the code of modules know of the App.
	Contained *contain.App
	// Manager, as modules see it, and Contained.Config are set before the graph is built.
	Manager ctrl.Manager
	manager *Manager
	// Collectors are the modules'.
	Collectors *Registerer
	// Events is the recorder of the App's events.
	Events lateRecorder
	// Building builds the graph; nil before Build.
	Building *Running
	// Managing runs the manager; nil before StartManager.
	Managing *Running

	labels []string        // of its goroutines in profiles, as keys and values
	ctx    context.Context //nolint:containedctx // See above.
	cancel context.CancelCauseFunc

	// failing ends, with the cause, when the manager has ended, a module has failed, or the Life has ended.
	failing context.Context //nolint:containedctx // See above.
	failed  context.CancelCauseFunc

	graph   graphLog
	hooks   hooks
	sources sync.Map // of *source
	intake  *meter.Limiter
	cache   atomic.Pointer[cache.Cache] // nil until it is made
	parents *evidence.Judge
	done    chan struct{} // closed when all goroutines of the Life have ended

	// Those below are of the app of a remote. Its clients with which modules write have a second, inner fence, which
	// closes earlier when another app takes over while leases continue.

	work    context.Context //nolint:containedctx // The modules' fence.
	endWork context.CancelCauseFunc
	// HubClient is made before the graph.
	HubClient client.Client
	lend      func(from client.Reader) (client.Client, error) // makes a client of leases; nil reads from the cache
	lent      sync.Map                                        // the clients of leases, by module
	steps     []CleanupStep

	leftBehind atomic.Bool           // it is a zombie, or was one
	cleaning   atomic.Bool           // the cleanup steps run, or have run
	refused    atomic.Pointer[error] // of the last write that the gate has refused; nil for none
}

// Options describe one Life. All fields but Filters, Unstreamed, Monitor and Remote are required.
type Options struct {
	Name   state.ClusterName // of the remote
	Number int64
	Log    logr.Logger
	// Desired has its defaults, for a hub part nothing else. The Life does not see one that is posted later; Middleware
	// does.
	Desired     state.Desired
	ModuleNames []string
	// Unstreamed is what the API server cannot stream. Default: the cache's own memory.
	Unstreamed *cache.Unstreamed
	// Undeclared explains why informers are refused.
	Undeclared cache.Undeclared
	// Filters are those of every module, by its name, also of one that does not run: its hub part reads through them, too.
	Filters func() map[string][]cache.Filter
	// Changed is called when the App has made progress or a module has failed, Missed if the API server does not serve
	// a kind that a module watches. They must return at once.
	Changed, Missed func()
	// Monitor watches the progress of controllers. Default: nil.
	Monitor *liveness.Monitor
	// Remote is nil for a hub part.
	Remote *Remote
}

// Remote describes the side of the app that faces the remote. All fields but Early are required.
type Remote struct {
	Base http.RoundTripper // the connection
	// LastReceived is when a list last returned data, in nanoseconds.
	LastReceived *atomic.Int64
	Early        *restmapper.Early
	Doubt        func()
	HubTransport http.RoundTripper
	Rank         startqueue.Rank
	Graph        Graph
	// Middleware may return nil.
	Middleware func(http.RoundTripper) http.RoundTripper
	// Built gets the names of the cleanup steps when the graph is built. It must return at once.
	Built func(steps []string)
}

// Graph returns the options of the graph of an app: the values for modules, each module in its Scope, and an invoke that
// calls SetSteps. It is called once, after the clients and the manager are made.
type Graph func(*Life) fx.Option

// New returns a Life that has not started.
func New(host *Common, o Options) *Life {
	l := &Life{Common: host, Options: o, done: make(chan struct{}), Collectors: &Registerer{Registerer: host.Registerer}}
	if o.Remote == nil {
		l.labels = []string{"hubpart", o.ModuleNames[0]}
	} else {
		l.labels = []string{telemetry.ClusterLabel, string(o.Name)}
		l.Collectors.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{telemetry.ClusterLabel: string(o.Name)}, host.Registerer)
	}
	l.labels = append(l.labels, "epoch", strconv.FormatInt(l.Number, 10))
	l.ctx, l.cancel = context.WithCancelCause(pprof.WithLabels(host.Root, pprof.Labels(l.labels...)))
	l.failing, l.failed = context.WithCancelCause(l.ctx)
	l.work, l.endWork = context.WithCancelCause(l.ctx)
	gate := contain.NewGate(l.ctx)
	l.Log = logsink.QuietAfter(gate.Ended, l.Log, ErrStopped, context.Canceled)
	l.graph.log = l.Log.WithName("fx")
	l.hooks.log, l.hooks.timeout = l.Log, host.Limits.StopTimeout
	l.tracker = newTracker(o.ModuleNames, host.Limits.SyncTimeout, o.Changed)
	l.intake = meter.NewLimiter(host.Schemas, int64(host.Limits.MaxCacheBytes))
	l.parents = evidence.NewJudge(host.Scheme, l.homes, hubTimeout)
	l.Contained = &contain.App{
		Name: string(l.Name), Number: l.Number, Context: l.ctx, Gate: gate, Labels: l.labels,
		ReconcileTimeout: host.Limits.ReconcileTimeout, Metrics: host.Metrics, Tracer: host.Tracer, Queues: host.Queues, Monitor: o.Monitor,
		Fail: func(module string, err error) {
			l.fail(&ModuleError{Module: module, Reason: state.ReasonModuleFailed, Err: err})
		},
		Failed: func(module string, err error) error {
			failed := &ModuleError{Module: module, Reason: state.ReasonModuleFailed, Err: err}
			l.moduleFailed(failed)
			return failed
		},
		Blind:             l.Blind,
		IsBroken:          l.isBroken,
		ControllerAdded:   l.controllerAdded,
		ControllerRefused: l.controllerRefused,
		ControllerSynced:  l.controllerSynced,
	}
	// Not when the App has ended: the next App may start before that, and registers the same collectors.
	context.AfterFunc(l.ctx, l.Collectors.end)
	return l
}

// Context returns the context of the Life. Its cause tells why it has ended.
func (l *Life) Context() context.Context { return l.ctx }

// Stop fences the Life: it sends no further request, its contexts have ended, and the goroutine that runs it cleans up.
// Stop returns at once, and may be called again.
func (l *Life) Stop(cause error) { l.cancel(cause) }

// Done returns a channel that is closed when all goroutines of the Life have ended.
func (l *Life) Done() <-chan struct{} { return l.done }

// Guard returns the guard that contains the code of a module.
func (l *Life) Guard(module string) *contain.Container {
	return contain.NewContainer(l.Contained, module, l.Log)
}

// Hold delays the modules' collectors until Release, since an app that is replaced has the same ones.
func (l *Life) Hold() { l.Collectors.hold() }

// Release lets the controllers of the modules work, and registers collectors that Hold has delayed.
func (l *Life) Release() {
	l.Collectors.release(l.Log)
	l.Contained.Gate.Open()
}

// Yield ends the controllers, and all writes of modules, so that the next app's may start. It returns when their
// runnables have ended, or after a time. Leases continue until Stop.
func (l *Life) Yield(atMost time.Duration) {
	l.endWork(ErrReplaced)
	l.Contained.Gate.Close(atMost)
	l.Collectors.end()
}

// LeaveBehind marks the Life as a zombie, and reports whether it was none before.
func (l *Life) LeaveBehind() bool { return l.leftBehind.CompareAndSwap(false, true) }

func (l *Life) moduleFailed(failed *ModuleError) {
	var ours *panics.Error
	var ofGraph dig.PanicError
	if errors.As(failed, &ours) || errors.As(failed, &ofGraph) {
		l.Metrics.CountPanic(string(l.Name), failed.Module)
	}
	l.tracker.moduleFailed(failed)
}

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

// Running is a goroutine that was started and will end.
type Running struct {
	Done chan struct{}
	Err  error // read it only after Done
}

// Wait returns at once if no goroutine was started.
func (r *Running) Wait(atMost time.Duration) {
	if r == nil {
		return
	}
	select {
	case <-r.Done:
	case <-time.After(atMost):
	}
}

// run calls ended, which may be nil, when f has returned.
func run(f func() error, ended func(error)) *Running {
	r := &Running{Done: make(chan struct{}), Err: contain.ErrGoexit} // unless f returns
	go func() {
		defer func() {
			close(r.Done)
			if ended != nil {
				ended(r.Err)
			}
		}()
		r.Err = panics.Catch(f)
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
