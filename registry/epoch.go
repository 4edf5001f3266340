// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/boundcache"
	"github.com/clusterfx/clusterfx/registry/internal/contain"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/startqueue"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/state"
)

// errManagerEnded says that a manager returned although it was not stopped.
var errManagerEnded = errors.New("the manager ended")

// epoch is one life of one remote's app, and the owner of everything that can act in it: its context, its transports,
// its fx App, its manager, its rate limits. It runs once.
//
// Its context is also its fence: every client of the app checks it right before sending a request. Once it has ended
// no request leaves the hub, although goroutines of the app may still run. The clients with which modules write have
// a second, inner fence, which closes earlier when another epoch replaces this epoch, whose leases continue for
// leaseGrace.
type epoch struct {
	lifetime
	config  state.Desired
	base    http.RoundTripper // the connection to the remote
	heard   *atomic.Int64     // when a list on it last returned data, in nanoseconds
	rank    startqueue.Rank
	info    Status
	quote   Quoter
	chosen  []choice                       // the modules
	offered offers                         // the values that hub parts shared when the modules were chosen
	wanted  *atomic.Pointer[state.Desired] // the latest; fields that restart nothing may differ from config
	built   func(steps []string)           // called with the cleanup steps when the graph was built
	missed  func()                         // called if the remote does not serve a watched kind

	work    context.Context //nolint:containedctx // The modules' fence.
	endWork context.CancelCauseFunc
	lend    func() (client.Client, error) // the client of leases, made at its first use
	// lendReading makes a client of leases that reads from another cache, and lent has these clients by module.
	lendReading func(client.Reader) (client.Client, error)
	lent        sync.Map
	steps       []CleanupStep

	registerer *appMetrics
	mapper     meta.RESTMapper
	intake     *meter.Limiter
	traffic    *transport.Traffic
	cache      atomic.Pointer[boundcache.Cache] // nil until it is made
	values     values                           // the values that the fx App provides

	events   lateRecorder
	building *running      // the graph; nil until it was begun
	manager  *running      // nil until it was started
	done     chan struct{} // closed when all goroutines of the epoch have ended

	leftBehind atomic.Bool // it is a zombie, or was one
}

// running is a goroutine that was started and will end.
type running struct {
	done chan struct{}
	err  error // read it only after done
}

// wait returns when the goroutine has ended, or after a time. It returns at once if none was started.
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

func start(f func() error) *running {
	r := &running{done: make(chan struct{}), err: contain.ErrGoexit} // unless f returns
	go func() {
		defer close(r.done)
		r.err = panics.Catch(f)
	}()
	return r
}

// newEpoch completes an epoch of which name, number, config, base, rank, info and log are set. It calls changed when
// the app has made progress or a module has failed.
func newEpoch(env *environment, e *epoch, changed func()) *epoch {
	e.config = e.config.WithDefaults()
	e.begin(env, []string{telemetry.ClusterLabel, string(e.name)}, e.chosen, changed)
	e.work, e.endWork = context.WithCancelCause(e.ctx)
	e.done = make(chan struct{})
	e.intake = meter.NewLimiter(env.shapes, int64(env.limits.MaxCacheBytes))
	e.traffic = env.metrics.Traffic(string(e.name))
	e.registerer = newAppMetrics(env.registerer, e.name)
	// Not when the app has ended: the next app may start before that, and registers the same collectors.
	context.AfterFunc(e.ctx, e.registerer.end)
	return e
}

// release starts the controllers of the modules in this epoch, and the registration of their collectors.
func (e *epoch) release() {
	e.registerer.release(e.log)
	e.permission.Open()
}

// yield ends the controllers of the modules in this epoch, so that the controllers of the next epoch may start: no
// further write of a module is sent. It returns when their runnables have ended, or after a time. Leases continue
// until stop.
func (e *epoch) yield(atMost time.Duration) {
	e.endWork(ErrReplaced)
	e.permission.Close(atMost)
	e.registerer.end()
}

// run builds and runs the app until it fails or is stopped, cleans up and returns. It calls ready when the app is
// ready, and ended if the app fails.
func (e *epoch) run(ready func(), ended func(error)) {
	defer close(e.done)
	defer e.hooks.end() // also hooks that have timed out
	defer e.cleanUp()
	pprof.SetGoroutineLabels(e.ctx) // and of all goroutines that this goroutine starts; see contain.App.Goroutines
	var record record
	defer record.close()
	err := panics.Catch(func() error { return e.startTraced(&record) })
	if err == nil {
		ready()
		record.closeAfter(provenAfter)
		select {
		case <-e.manager.done:
			err = managerError(e.manager.err)
		case <-e.tracker.broken:
			err = e.tracker.cause
		case <-e.ctx.Done():
			return
		}
	}
	if e.ctx.Err() == nil {
		ended(err)
	}
}

func managerError(err error) error {
	if err == nil {
		return errManagerEnded
	}
	return fmt.Errorf("%w: %w", errManagerEnded, err)
}

// startTraced is start within a span.
func (e *epoch) startTraced(r *record) (err error) {
	ctx, span := e.tracer.Start(e.ctx, "app.start", string(e.name), telemetry.EpochKey.Int64(e.number))
	defer func() { endWith(span, err) }()
	return e.start(ctx, r)
}

// start returns when the app is ready: every hook has run, and every controller has seen its
// initial objects. ctx is e.ctx, with the span of the start.
func (e *epoch) start(ctx context.Context, r *record) error {
	var release func()
	err := e.stage(ctx, "app.turn", func(context.Context) (err error) {
		release, err = e.starts.Acquire(e.ctx, e.rank)
		return err
	})
	if err != nil {
		return err
	}
	began := time.Now()
	end := e.journal.begin(e.ctx, e.name, e.log)
	if e.rank == startqueue.RankSuspect {
		// It starts alone until it has proven itself: after a crash of the hub every app with an open entry is a
		// suspect.
		r.open(func() { end(); release() })
	} else {
		defer release()
		r.open(end)
	}
	if err := e.stage(ctx, "app.connect", e.connect); err != nil {
		return err
	}
	if err := e.stage(ctx, "app.build", func(context.Context) error { return e.waitForGraph() }); err != nil {
		return err
	}
	if err := e.stage(ctx, "app.hooks", func(context.Context) error { return e.startHooks() }); err != nil {
		return err
	}
	mgr := e.values.Manager
	e.events.open()
	e.manager = start(func() error { return mgr.Start(e.ctx) })
	r.closeAfter(provenUnreadyAfter)
	if err := e.stage(ctx, "app.sync", func(context.Context) error { return e.waitUntilSynced(e.ctx, mgr) }); err != nil {
		return err
	}
	e.metrics.ObserveStart(time.Since(began))
	return nil
}

// waitForGraph builds the graph, and stops waiting for it when a constructor does not return in time.
func (e *epoch) waitForGraph() error {
	e.building = start(e.buildGraph)
	return e.awaitBuilding()
}

// awaitBuilding returns when the graph is built, or when that took too long.
func (e *epoch) awaitBuilding() error {
	patience := time.NewTimer(e.limits.StartTimeout)
	defer patience.Stop()
	select {
	case <-e.building.done:
		if e.building.err == nil {
			e.built(stepNames(e.steps))
		}
		return e.building.err
	case <-patience.C:
		return &moduleError{
			module: e.graph.current(), reason: state.ReasonBuildFailed,
			err: fmt.Errorf("a constructor or invoke did not return within %s", e.limits.StartTimeout),
		}
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	}
}

func (e *epoch) waitUntilSynced(ctx context.Context, mgr ctrl.Manager) error {
	elected := mgr.Elected()
	patience := time.NewTicker(e.limits.SyncTimeout)
	defer patience.Stop()
	for {
		select {
		case <-patience.C:
			if err := e.tracker.timedOut(e.limits.SyncTimeout); err != nil {
				return err
			}
		case <-elected: // every runnable was started
			elected = nil
			e.tracker.managerStarted()
		case <-e.tracker.synced:
			return nil
		case <-e.manager.done:
			return managerError(e.manager.err)
		case <-e.tracker.broken:
			return e.tracker.cause
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cleanUp ends the manager and runs the OnStop hooks, and returns when all goroutines of the epoch have ended. It
// gives the manager half of the stop timeout before it runs the hooks, which have the other half. If a goroutine
// hangs for longer, the actor leaves the epoch behind as a zombie; it stays fenced.
func (e *epoch) cleanUp() {
	e.stop(ErrStopped)
	_, span := e.tracer.Start(e.ctx, "app.stop", string(e.name), telemetry.EpochKey.Int64(e.number))
	defer span.End()
	defer e.registerer.end()
	half := e.limits.StopTimeout / 2
	e.manager.wait(half)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), half)
	defer cancel()
	if err := e.hooks.stop(ctx); err != nil {
		e.log.Error(err, "Some modules did not stop cleanly")
	}
	e.building.wait(never)
	e.manager.wait(never)
}

// never is longer than any hub lives.
const never = 100 * 365 * 24 * time.Hour
