// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Epoch is one life of one remote's app, and owns everything that can act in it. It runs once. The clients with which
// modules write have a second, inner fence, which closes earlier when another epoch takes over while leases continue.
type Epoch struct {
	Life
	options Options

	work    context.Context //nolint:containedctx // The modules' fence.
	endWork context.CancelCauseFunc
	lend    func() (client.Client, error) // the client of leases, made at its first use
	// lendReading makes a client of leases that reads from another cache; lent has them by module.
	lendReading func(client.Reader) (client.Client, error)
	lent        sync.Map
	steps       []CleanupStep

	mapper  meta.RESTMapper
	traffic *transport.Traffic
	values  Values
	parents evidence.Judge

	leftBehind atomic.Bool             // it is a zombie, or was one
	cleaning   atomic.Bool             // the cleanup steps run, or have run
	refused    atomic.Pointer[refusal] // the last write that the gate has refused; nil for none
}

// Options describe an Epoch. All fields but Filters, Early and Unstreamed are required.
type Options struct {
	Name   state.ClusterName
	Number int64
	Log    logr.Logger
	// Desired has its defaults. The Epoch does not see one that is posted later; Middleware does.
	Desired state.Desired
	// LastReceived is when a list last returned data, in nanoseconds.
	Base         http.RoundTripper
	LastReceived *atomic.Int64
	Early        *Early
	Unstreamed   *Unstreamed
	Doubt        func()
	HubTransport http.RoundTripper
	Rank         startqueue.Rank
	// Modules run in the app. Filters are those of every module: hub parts read through others' filters, too.
	Modules []string
	Filters func() []ModuleFilters
	Graph   Graph
	// Middleware may return nil.
	Middleware func(http.RoundTripper) http.RoundTripper
	Undeclared Undeclared
	// Built gets the names of the cleanup steps when the graph is built; Missed says that the remote does not serve a
	// watched kind; Changed, that the app made progress or a module failed. They must return at once.
	Built           func(steps []string)
	Missed, Changed func()
}

// Graph returns the options of an app's graph: the values for modules, each module in its Scope, and an invoke that
// calls SetSteps. It is called once, after Values.
type Graph func(*Epoch) fx.Option

// New returns an Epoch that has not started.
func New(host *Common, o Options) *Epoch {
	e := &Epoch{
		options: o, traffic: host.Metrics.Traffic(string(o.Name)),
	}
	e.parents = evidence.Judge{Scheme: host.Scheme, Homes: e.homes, Timeout: hubTimeout}
	e.init(host, LifeOptions{
		Name: o.Name, Number: o.Number, Log: o.Log, ModuleNames: o.Modules,
		Timeout:    o.Desired.Client.Timeout,
		Collectors: newAppRegisterer(host.Registerer, o.Name), Filters: o.Filters,
		Changed: o.Changed, Missed: o.Missed, Unstreamed: o.Unstreamed, Undeclared: o.Undeclared,
	}, []string{telemetry.ClusterLabel, string(o.Name)})
	e.work, e.endWork = context.WithCancelCause(e.ctx)
	return e
}

// Base returns the connection to the remote.
func (e *Epoch) Base() http.RoundTripper { return e.options.Base }

// Hold delays the modules' collectors until Release, since an app that is replaced has the same ones.
func (e *Epoch) Hold() { e.Collectors.hold() }

// Release starts the controllers, and the registration of the collectors.
func (e *Epoch) Release() {
	e.Collectors.release(e.Log)
	e.permission.Open()
}

// Yield ends the controllers, and all writes of modules, so that the next epoch's may start. It returns when their
// runnables have ended, or after a time. Leases continue until Stop.
func (e *Epoch) Yield(atMost time.Duration) {
	e.endWork(ErrReplaced)
	e.permission.Close(atMost)
	e.Collectors.end()
}

// LeaveBehind marks the epoch as a zombie, and reports whether it was none before.
func (e *Epoch) LeaveBehind() bool { return e.leftBehind.CompareAndSwap(false, true) }

// Run builds and starts the app, and returns when it is ready or has failed. ready is called when it is ready, ended if
// it fails, then or later. A failed or stopped Epoch cleans up: see Done.
func (e *Epoch) Run(ready func(), ended func(error)) {
	pprof.SetGoroutineLabels(e.ctx) // and of all goroutines that this goroutine starts; see contain.App.Goroutines
	record := &record{}
	finish := func(err error) {
		if e.ctx.Err() == nil {
			ended(err)
		}
		record.close()
		e.cleanUp()
	}
	err := contain.ErrGoexit // unless the start returns
	defer func() {
		if err != nil {
			finish(err)
		}
	}()
	if err = panics.Catch(func() error { return e.startTraced(record) }); err != nil {
		return
	}
	e.Log.Info("The app is Ready", "warm", e.options.Desired.Warm)
	ready()
	record.closeAfter(provenAfter)
	e.OnFailure(finish) // An app that runs needs no goroutine that waits for its end.
}

func (e *Epoch) startTraced(r *record) (err error) {
	ctx, span := e.Tracer.Start(e.ctx, "app.start", string(e.Name), telemetry.EpochKey.Int64(e.Number))
	defer func() { endWith(span, err) }()
	return e.start(ctx, r)
}

// start returns when every hook has run and every controller has its objects. ctx is e.ctx, with the span of the start.
func (e *Epoch) start(ctx context.Context, r *record) error {
	var release func()
	alone := e.options.Rank == startqueue.RankSuspect
	if alone {
		e.Log.Info("The app is a suspect and waits to start alone: processes of the hub have ended while it started")
	}
	err := e.stage(ctx, "app.turn", func(context.Context) (err error) {
		release, err = e.Starts.Acquire(e.ctx, e.options.Rank)
		return err
	})
	if err != nil {
		return err
	}
	began := time.Now()
	e.Log.Info("The app starts", "alone", alone)
	end := e.Journal.begin(e.ctx, e.Name, alone, e.Log)
	if alone {
		// It starts alone until it has proven itself.
		r.open(func() { end(); release() })
	} else {
		defer release()
		r.open(end)
	}
	if err := e.stage(ctx, "app.connect", e.connect); err != nil {
		return err
	}
	if err := e.stage(ctx, "app.build", func(context.Context) error { return e.build() }); err != nil {
		return err
	}
	if err := e.stage(ctx, "app.hooks", func(context.Context) error { return e.StartHooks() }); err != nil {
		return err
	}
	mgr := e.values.Manager
	e.StartManager(e.ctx, mgr)
	r.closeAfter(provenUnreadyAfter)
	if err := e.stage(ctx, "app.sync", func(context.Context) error { return e.AwaitSync(e.ctx, mgr) }); err != nil {
		return err
	}
	e.Metrics.ObserveStart(time.Since(began))
	return nil
}

// build stops waiting when a constructor does not return in time.
func (e *Epoch) build() error {
	graph := e.options.Graph
	e.Build(func() error { return e.BuildGraph(graph(e)) })
	if err := e.AwaitGraph(); err != nil {
		return err
	}
	e.options.Built(e.Steps())
	return nil
}

// cleanUp gives the manager half of the stop timeout, then the hooks the other half. If a goroutine hangs for longer,
// the actor leaves the epoch behind as a fenced zombie.
func (e *Epoch) cleanUp() {
	e.Stop(ErrStopped)
	_, span := e.Tracer.Start(e.ctx, "app.stop", string(e.Name), telemetry.EpochKey.Int64(e.Number))
	defer e.Finish()
	defer span.End()
	half := e.Limits.StopTimeout / 2
	e.manager.wait(half)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), half)
	defer cancel()
	if err := e.hooks.stop(ctx); err != nil {
		e.Log.Error(err, "Some modules did not stop cleanly")
	}
	e.building.wait(Never)
	e.manager.wait(Never)
	e.Collectors.end()
}
