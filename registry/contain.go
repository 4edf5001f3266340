// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crrecorder "sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// guard answers for the code of one module in one app, in whichever goroutine it runs: where it
// panics, the app ends with the module's name on it, and the goroutine goes on.
//
// The guard without a module answers for code of the hub that came in through WithCluster. What it
// did to the object of one remote is no reason to take that remote's modules down, so it is logged
// and counted, and that is all.
type guard struct {
	module string
	app    *containedApp
	log    logr.Logger
}

// newGuard returns the guard of a module in an app; of other code of the hub if the module is empty.
func newGuard(app *containedApp, module string, log logr.Logger) *guard {
	return &guard{module: module, app: app, log: log}
}

// errGoexit says that code ended the goroutine that it was called in.
var errGoexit = errors.New("runtime.Goexit was called, as FailNow of a test does")

// check is deferred around a call of the module's code. It ends a panic of it. returned says whether
// the call came back; where it did not and nothing panicked, the goroutine is ending.
func (g *guard) check(what string, returned *bool) {
	if *returned {
		return
	}
	err := errGoexit
	if value := recover(); value != nil {
		g.countPanic()
		err = panics.New(value)
	}
	g.fail(fmt.Errorf("%s: %w", what, err))
}

// fail ends the app because of the module.
func (g *guard) fail(err error) {
	if g.module != "" {
		g.app.Fail(g.module, err)
		return
	}
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		g.log.Error(err, "Code of the hub failed on an object of a remote", "stack", string(panicked.Stack))
		return
	}
	g.log.Error(err, "Code of the hub failed on an object of a remote")
}

// call calls code of a module in a goroutine that is not the module's own.
func (g *guard) call(what string, f func()) {
	returned := false
	defer g.check(what, &returned)
	f()
	returned = true
}

// transform calls a Transform of the module, unless the app is about to end. If that panics, the object is stored as it is.
func (g *guard) transform(f func()) {
	if !g.broken() {
		g.call("transform of a cache filter", f)
	}
}

// probe calls a check on behalf of a module, whose panic is an error and ends its hub part.
func (g *guard) probe(what string, check healthz.Checker, r *http.Request) (err error) {
	err = fmt.Errorf("%s panicked", what)
	g.call(what, func() { err = check(r) })
	return err
}

// guardKey is the key under which the contexts of a module's controllers carry its guard.
type guardKey struct{}

// guardOf returns the guard of the module on whose behalf something is done, or nil.
func guardOf(ctx context.Context) *guard {
	g, _ := ctx.Value(guardKey{}).(*guard)
	return g
}

// countPanic counts a panic, unless the app has ended: its remote may have been forgotten.
func (g *guard) countPanic() {
	if g.app.Context.Err() != nil {
		return
	}
	g.app.Metrics.CountPanic(g.app.Name, g.module)
}

// broken reports whether the app is on its way out, so that the module's code need not be called any
// more.
func (g *guard) broken() bool { return g.module != "" && g.app.IsBroken() }

// moduleManager is the manager as one module sees it. What the module adds to it, and what it adds
// to the cache that it gets from it, is known to be the module's: where that fails or panics, the
// app ends with the module's name on it.
type moduleManager struct {
	ctrl.Manager
	guard *guard
	cache *appCache
	// client reads from the cache as the module sees it; nil if that is the app's.
	client client.Client
}

func newModuleManager(app *containedApp, mgr ctrl.Manager, module string, log logr.Logger) (*moduleManager, error) {
	g := &guard{module: module, app: app, log: log}
	m := &moduleManager{Manager: mgr, guard: g, cache: newModuleCache(mgr.GetCache(), g)}
	if !m.cache.HasFilters(module) {
		return m, nil
	}
	var err error
	m.client, err = app.ReadingClient(m.cache)
	return m, err
}

// GetClient returns the module's client.
func (m *moduleManager) GetClient() client.Client {
	if m.client != nil {
		return m.client
	}
	return m.Manager.GetClient()
}

// GetLogger returns the module's logger. The builders of controllers log errors of reconcilers with it, which are
// lines for debugging when the app has ended.
func (m *moduleManager) GetLogger() logr.Logger {
	return m.guard.app.Quiet(m.guard.log)
}

// GetEventRecorder returns a recorder whose notes are events of their own.
func (m *moduleManager) GetEventRecorder(name string) crrecorder.EventRecorder {
	return m.guard.app.Recorder(m.Manager.GetEventRecorder(name), m.GetScheme())
}

// GetConfig returns what the module's own clients are made with.
func (m *moduleManager) GetConfig() *rest.Config { return rest.CopyConfig(m.guard.app.Config) }

// GetHTTPClient returns the client that belongs to GetConfig.
func (m *moduleManager) GetHTTPClient() *http.Client {
	if m.guard.app.Config.Transport == nil {
		return m.Manager.GetHTTPClient()
	}
	return &http.Client{Transport: m.guard.app.Config.Transport}
}

// GetCache returns the app's cache as the module sees it.
func (m *moduleManager) GetCache() cache.Cache { return m.cache }

// GetFieldIndexer returns the app's cache as the module sees it.
func (m *moduleManager) GetFieldIndexer() client.FieldIndexer { return m.cache }

// GetControllerOptions returns the defaults of controllers, with the module's logger.
func (m *moduleManager) GetControllerOptions() ctrlconfig.Controller {
	o := m.Manager.GetControllerOptions()
	o.Logger = m.GetLogger()
	return o
}

// Add adds a runnable on behalf of the module.
func (m *moduleManager) Add(r manager.Runnable) error {
	one := contained{Runnable: r, guard: m.guard}
	switch r := r.(type) {
	case *manager.Server, webhook.Server:
		return m.Manager.Add(r) // the manager tells these apart by their type
	case interface{ GetCache() cache.Cache }:
		return m.Manager.Add(&containedCluster{contained: one, cache: r.GetCache()})
	case cache.Informers:
		return m.Manager.Add(&containedCache{one})
	}
	if w, ok := r.(warmer); ok {
		app := m.guard.app
		known := app.ControllerAdded(m.guard.module, r, hasSupervisor(r))
		err := m.Manager.Add(&containedController{contained: one, warmer: w, known: known})
		if err != nil {
			app.ControllerRefused(m.guard.module, known)
		}
		return err
	}
	return m.Manager.Add(&one)
}

// warmer is what controller-runtime's controllers implement: Warmup starts their sources and
// returns when these have delivered the initial objects. It is how the app learns that a
// controller is ready to work.
type warmer interface {
	Warmup(ctx context.Context) error
}

// contained runs a runnable so that its failures are its module's.
type contained struct {
	manager.Runnable
	guard *guard
}

var _ manager.LeaderElectionRunnable = (*contained)(nil)

// Start runs the runnable and returns its error or panic as the module's. One that works on behalf
// of a leader waits until the epoch may work, and ends when that is over.
func (c *contained) Start(ctx context.Context) error {
	work := func(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }
	if !c.NeedLeaderElection() {
		return work(ctx)
	}
	return c.guard.app.Gate.run(ctx, work)
}

// NeedLeaderElection passes on what the runnable says; controller-runtime's default is true.
func (c *contained) NeedLeaderElection() bool {
	if r, ok := c.Runnable.(manager.LeaderElectionRunnable); ok {
		return r.NeedLeaderElection()
	}
	return true
}

// run calls f. Goroutines that it starts carry the module's name in profiles, besides those of their
// app, and contexts made from its own lead CountPanic to the module.
func (c *contained) run(ctx context.Context, f func(context.Context) error) (err error) {
	g, returned := c.guard, false
	defer func() {
		if !returned {
			g.fail(errGoexit)
		}
	}()
	pprof.Do(context.WithValue(ctx, guardKey{}, g), g.labels(), func(ctx context.Context) {
		err = panics.Catch(func() error { return f(ctx) })
	})
	returned = true
	if err == nil {
		return nil
	}
	return g.app.Failed(g.module, err)
}

// labels are those of the module's goroutines in profiles, besides those of its App.
func (g *guard) labels() pprof.LabelSet {
	return pprof.Labels(slices.Concat(g.app.Labels, []string{telemetry.ModuleLabel, g.module})...)
}

// containedController is a contained controller.
type containedController struct {
	contained
	warmer warmer
	known  *watcher
}

// Warmup waits until the controller has seen its initial objects. The controller's sources and queue
// live in the context given here, and its workers end only when the queue does; so it has to end with
// the permission to work.
func (c *containedController) Warmup(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(c.guard.app.Gate.ctx, cancel)
	c.known.begin()
	c.guard.warnOfUnsupervised()
	err := c.run(context.WithValue(ctx, watcherKey{}, c.known), c.warmer.Warmup)
	if err == nil && ctx.Err() == nil {
		c.guard.app.ControllerSynced(c.guard.module, c.known)
	}
	return err
}

// warnOfUnsupervised logs, once, which controllers of the module are not supervised.
func (g *guard) warnOfUnsupervised() {
	if names := g.app.TakeUnsupervised(g.module); len(names) > 0 {
		g.log.Info("Controllers are not supervised; build them with registry.ControllerManagedBy", "controllers", names)
	}
}
