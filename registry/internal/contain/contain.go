// SPDX-License-Identifier: Apache-2.0

package contain

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

// Guard answers for the code of one module in one app, in whichever goroutine it runs: where it
// panics, the app ends with the module's name on it, and the goroutine goes on.
//
// The guard without a module answers for code of the hub that came in through WithCluster. What it
// did to the object of one remote is no reason to take that remote's modules down, so it is logged
// and counted, and that is all.
type Guard struct {
	Module string
	App    *App
	log    logr.Logger
}

// NewGuard returns the guard of a module in an app; of other code of the hub if the module is empty.
func NewGuard(app *App, module string, log logr.Logger) *Guard {
	return &Guard{Module: module, App: app, log: log}
}

// ErrGoexit says that code ended the goroutine that it was called in.
var ErrGoexit = errors.New("runtime.Goexit was called, as FailNow of a test does")

// check is deferred around a call of the module's code. It ends a panic of it. returned says whether
// the call came back; where it did not and nothing panicked, the goroutine is ending.
func (g *Guard) check(what string, returned *bool) {
	if *returned {
		return
	}
	err := ErrGoexit
	if value := recover(); value != nil {
		g.CountPanic()
		err = panics.New(value)
	}
	g.fail(fmt.Errorf("%s: %w", what, err))
}

// fail ends the app because of the module.
func (g *Guard) fail(err error) {
	if g.Module != "" {
		g.App.Fail(g.Module, err)
		return
	}
	var panicked *panics.Error
	if errors.As(err, &panicked) {
		g.log.Error(err, "Code of the hub failed on an object of a remote", "stack", string(panicked.Stack))
		return
	}
	g.log.Error(err, "Code of the hub failed on an object of a remote")
}

// Call calls code of a module in a goroutine that is not the module's own.
func (g *Guard) Call(what string, f func()) {
	returned := false
	defer g.check(what, &returned)
	f()
	returned = true
}

// Transform calls a Transform of the module, unless the app is about to end. If that panics, the object is stored as it is.
func (g *Guard) Transform(f func()) {
	if !g.IsBroken() {
		g.Call("transform of a cache filter", f)
	}
}

// CallCheck calls a check on behalf of a module, whose panic is an error and ends its hub part.
func (g *Guard) CallCheck(what string, check healthz.Checker, r *http.Request) (err error) {
	err = fmt.Errorf("%s panicked", what)
	g.Call(what, func() { err = check(r) })
	return err
}

// guardKey is the key under which the contexts of a module's controllers carry its guard.
type guardKey struct{}

// GuardOf returns the guard of the module on whose behalf something is done, or nil.
func GuardOf(ctx context.Context) *Guard {
	g, _ := ctx.Value(guardKey{}).(*Guard)
	return g
}

// CountPanic counts a panic, unless the app has ended: its remote may have been forgotten.
func (g *Guard) CountPanic() {
	if g.App.Context.Err() != nil {
		return
	}
	g.App.Metrics.CountPanic(g.App.Name, g.Module)
}

// IsBroken reports whether the app is on its way out, so that the module's code need not be called any
// more.
func (g *Guard) IsBroken() bool { return g.Module != "" && g.App.IsBroken() }

// Manager is the manager as one module sees it. What the module adds to it, and what it adds
// to the cache that it gets from it, is known to be the module's: where that fails or panics, the
// app ends with the module's name on it.
type Manager struct {
	ctrl.Manager
	guard *Guard
	cache *Cache
	// client reads from the cache as the module sees it; nil if that is the app's.
	client client.Client
}

func NewManager(app *App, mgr ctrl.Manager, module string, log logr.Logger) (*Manager, error) {
	g := &Guard{Module: module, App: app, log: log}
	m := &Manager{Manager: mgr, guard: g, cache: newModuleCache(mgr.GetCache(), g)}
	if !m.cache.HasFilters(module) {
		return m, nil
	}
	var err error
	m.client, err = app.ReadingClient(m.cache)
	return m, err
}

// GetClient returns the module's client.
func (m *Manager) GetClient() client.Client {
	if m.client != nil {
		return m.client
	}
	return m.Manager.GetClient()
}

// GetLogger returns the module's logger. The builders of controllers log errors of reconcilers with it, which are
// lines for debugging when the app has ended.
func (m *Manager) GetLogger() logr.Logger {
	return m.guard.App.Quiet(m.guard.log)
}

// GetEventRecorder returns a recorder whose notes are events of their own.
func (m *Manager) GetEventRecorder(name string) crrecorder.EventRecorder {
	return m.guard.App.Recorder(m.Manager.GetEventRecorder(name), m.GetScheme())
}

// GetConfig returns what the module's own clients are made with.
func (m *Manager) GetConfig() *rest.Config { return rest.CopyConfig(m.guard.App.Config) }

// GetHTTPClient returns the client that belongs to GetConfig.
func (m *Manager) GetHTTPClient() *http.Client {
	if m.guard.App.Config.Transport == nil {
		return m.Manager.GetHTTPClient()
	}
	return &http.Client{Transport: m.guard.App.Config.Transport}
}

// GetCache returns the app's cache as the module sees it.
func (m *Manager) GetCache() cache.Cache { return m.cache }

// GetFieldIndexer returns the app's cache as the module sees it.
func (m *Manager) GetFieldIndexer() client.FieldIndexer { return m.cache }

// GetControllerOptions returns the defaults of controllers, with the module's logger.
func (m *Manager) GetControllerOptions() ctrlconfig.Controller {
	o := m.Manager.GetControllerOptions()
	o.Logger = m.GetLogger()
	return o
}

// Add adds a runnable on behalf of the module.
func (m *Manager) Add(r manager.Runnable) error {
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
		app := m.guard.App
		known := app.ControllerAdded(m.guard.Module, r, hasSupervisor(r))
		err := m.Manager.Add(&containedController{contained: one, warmer: w, known: known})
		if err != nil {
			app.ControllerRefused(m.guard.Module, known)
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
	guard *Guard
}

var _ manager.LeaderElectionRunnable = (*contained)(nil)

// Start runs the runnable and returns its error or panic as the module's. One that works on behalf
// of a leader waits until the epoch may work, and ends when that is over.
func (c *contained) Start(ctx context.Context) error {
	work := func(ctx context.Context) error { return c.run(ctx, c.Runnable.Start) }
	if !c.NeedLeaderElection() {
		return work(ctx)
	}
	return c.guard.App.Gate.run(ctx, work)
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
			g.fail(ErrGoexit)
		}
	}()
	pprof.Do(context.WithValue(ctx, guardKey{}, g), g.labels(), func(ctx context.Context) {
		err = panics.Catch(func() error { return f(ctx) })
	})
	returned = true
	if err == nil {
		return nil
	}
	return g.App.Failed(g.Module, err)
}

// labels are those of the module's goroutines in profiles, besides those of its App.
func (g *Guard) labels() pprof.LabelSet {
	return pprof.Labels(slices.Concat(g.App.Labels, []string{telemetry.ModuleLabel, g.Module})...)
}

// containedController is a contained controller.
type containedController struct {
	contained
	warmer warmer
	known  *Controller
}

// Warmup waits until the controller has seen its initial objects. The controller's sources and queue
// live in the context given here, and its workers end only when the queue does; so it has to end with
// the permission to work.
func (c *containedController) Warmup(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(c.guard.App.Gate.Context, cancel)
	c.known.begin()
	c.guard.warnOfUnsupervised()
	err := c.run(context.WithValue(ctx, watcherKey{}, c.known), c.warmer.Warmup)
	if err == nil && ctx.Err() == nil {
		c.guard.App.ControllerSynced(c.guard.Module, c.known)
	}
	return err
}

// warnOfUnsupervised logs, once, which controllers of the module are not supervised.
func (g *Guard) warnOfUnsupervised() {
	if names := g.App.TakeUnsupervised(g.Module); len(names) > 0 {
		g.log.Info("Controllers are not supervised; build them with registry.ControllerManagedBy", "controllers", names)
	}
}
