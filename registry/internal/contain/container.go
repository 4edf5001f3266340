// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
)

// Container contains the code of one module in one app, in any goroutine: a panic ends the app with an error that names the
// module, and the goroutine continues. Without a module it contains code of the hub that uses a remote with
// WithCluster: a panic is logged and counted, and does not end the app, whose modules are not its cause.
type Container struct {
	Module string
	App    *App
	log    logr.Logger
}

// NewContainer returns the guard of a module in an app. The module is empty for other code of the hub.
func NewContainer(app *App, module string, log logr.Logger) *Container {
	return &Container{Module: module, App: app, log: log}
}

// ErrGoexit is the error of code that has ended its goroutine.
var ErrGoexit = errors.New("runtime.Goexit was called, as FailNow of a test does")

// recovered fails the module because of a panic. Without a value its goroutine is ending.
func (g *Container) recovered(what string, value any) {
	err := ErrGoexit
	if value != nil {
		g.CountPanic()
		err = panics.New(value)
	}
	g.Fail(fmt.Errorf("%s: %w", what, err))
}

// Stuck fails the module because an event handler does not return.
func (g *Container) Stuck(after time.Duration, goroutines []string) {
	g.log.Info("An event handler does not return", "goroutines", goroutines)
	g.Fail(fmt.Errorf("stuck: an event handler has not returned for %s", after))
}

// Fail fails the module. Without a module it logs.
func (g *Container) Fail(err error) {
	if g.Module != "" {
		g.App.Fail(g.Module, err)
		return
	}
	panics.WithStack(g.log, err).Error(err, "Code of the hub failed on an object of a remote")
}

// Call calls the module's code in a goroutine of another owner.
func (g *Container) Call(what string, f func()) {
	returned := false
	defer func() {
		if !returned {
			g.recovered(what, recover())
		}
	}()
	f()
	returned = true
}

// CallBounded is Call, and fails the module if the code takes longer than a reconcile may.
func (g *Container) CallBounded(what string, f func()) {
	patience := g.App.ReconcileTimeout
	watchdog := time.AfterFunc(patience, func() {
		if g.App.Context.Err() == nil {
			g.Fail(fmt.Errorf("stuck: a %s has not returned for %s", what, patience))
		}
	})
	defer watchdog.Stop()
	g.Call(what, f)
}

// Transform calls the Transform of a cache filter, unless the app is about to end. After a panic the object is stored
// unchanged.
func (g *Container) Transform(f func()) {
	if !g.IsBroken() {
		g.Call("transform of a cache filter", f)
	}
}

// CallCheck calls a health check. A panic is an error, and ends the hub part.
func (g *Container) CallCheck(what string, check healthz.Checker, r *http.Request) (err error) {
	err = fmt.Errorf("%s panicked", what)
	g.Call(what, func() { err = check(r) })
	return err
}

type guardKey struct{}

// GuardOf returns the guard of the module on whose behalf a context acts, or nil.
func GuardOf(ctx context.Context) *Container {
	g, _ := ctx.Value(guardKey{}).(*Container)
	return g
}

// ModuleOf returns the name of that module, or "", also for code of the hub.
func ModuleOf(ctx context.Context) string {
	if g := GuardOf(ctx); g != nil {
		return g.Module
	}
	return ""
}

// CountPanic counts a panic, unless the app has ended: the remote may have been removed.
func (g *Container) CountPanic() {
	if g.App.Context.Err() != nil {
		return
	}
	g.App.Metrics.CountPanic(g.App.Name, g.Module)
}

// IsBroken reports whether the app is about to end, so that calling the module is useless.
func (g *Container) IsBroken() bool { return g.Module != "" && g.App.IsBroken() }
