// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"reflect"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
)

// params are the values that FX needs from the hub's App.
type params struct {
	fx.In

	// Manager is the hub's. The registry is added to it as a runnable, so that the apps end
	// before the hub gives up its lease.
	Manager ctrl.Manager
	Log     logr.Logger
	// Modules are collected from every Module.Option in the App.
	Modules []Module `group:"clusterfx-modules"`
	// Shared are collected from every Share in the App, Middleware from every WithMiddleware and AsMiddleware.
	Shared     []Shared     `group:"clusterfx-shared"`
	Middleware []Middleware `group:"clusterfx-middleware"`
	// Journal replaces Options.Journal.
	Journal Journal `optional:"true"`
	// Lifecycle builds the hub parts of modules before the manager starts, and runs their hooks when it has ended.
	Lifecycle fx.Lifecycle
	// Shutdowner lets hub parts end the hub.
	Shutdowner fx.Shutdowner
	// Options carry the settings that only the program knows (policy, limits, the hub's id). FX sets Hub, HubMapper,
	// HubCache, Scheme, Log, Modules, Shared and Middleware from the other fields.
	Options Options `optional:"true"`
}

// FX provides a *Registry to the hub's App, and runs the hub part of every module in an App of its own.
var FX = fx.Module("registry", fx.Provide(provide))

func provide(p params) (*Registry, error) {
	o := p.Options
	o.Hub, o.HubMapper, o.HubCache = p.Manager.GetConfig(), p.Manager.GetRESTMapper(), p.Manager.GetCache()
	o.Scheme, o.Log, o.Modules = p.Manager.GetScheme(), p.Log.WithName("registry"), p.Modules
	o.Shared, o.Middleware = p.Shared, p.Middleware
	if p.Journal != nil {
		o.Journal = p.Journal
	}
	r, err := New(o)
	if err != nil {
		return nil, err
	}
	parts, err := newHubParts(p, r, o)
	if err != nil {
		return nil, err
	}
	r.parts.Store(parts) // Metrics may be collected already.
	// The parts are built before the manager of the hub starts, and their hooks run when it has ended.
	p.Lifecycle.Append(fx.Hook{OnStart: parts.OnStart, OnStop: parts.OnStop})
	return r, errors.Join(p.Manager.Add(r), p.Manager.Add(parts), p.Manager.Add(parts.Leading()))
}

// Shared is a value of the hub's App that goes into every app.
type Shared struct {
	value catalog.Shared
}

// sharedGroup is the fx value group that collects the shared values.
const sharedGroup = "clusterfx-shared"

// Share hands a value of the hub's App to the apps of all remotes: it is built once, by the constructor that
// the hub part of a module has for it, and the remote part of any module may ask for a T. It goes into the
// hub part of a module, or into the options of the hub:
//
//	registry.ModuleOptions{
//		Hub:     fx.Options(fx.Provide(NewPool), registry.Share[*Pool]()),
//		HubRuns: registry.WithRemotes,
//		Remote:  fx.Invoke(Setup), // may ask for a *Pool
//	}
//
// The value must be safe for use by many goroutines. It belongs to the hub part that shares it: its hooks run there,
// when the hub ends after all apps have ended. While that hub part does not run, modules whose remote part needs the
// value wait. Two hub parts that share the same T, and a T that an app has already, such as client.Client, are an
// error when the hub starts.
func Share[T any]() fx.Option {
	share := func(value T) Shared {
		return Shared{catalog.Shared{Type: reflect.TypeFor[T](), Provide: fx.Provide(func() T { return value })}}
	}
	var none T
	return fx.Options(
		fx.Provide(fx.Annotate(share, fx.ResultTags(`group:"`+sharedGroup+`"`))),
		fx.Supply(fx.Annotate(share(none), fx.ResultTags(`group:"`+sharedGroup+`-types"`))),
	)
}

// String names the type.
func (s Shared) String() string { return s.value.String() }

// sharedValues returns the values as the catalog has them.
func sharedValues(all []Shared) []catalog.Shared {
	values := make([]catalog.Shared, 0, len(all))
	for _, s := range all {
		values = append(values, s.value)
	}
	return values
}

// middlewareGroup is the fx value group that collects middleware.
const middlewareGroup = "clusterfx-middleware"

// WithMiddleware adds a middleware to the hub's App. It goes into the hub part of a module or into the options of the
// hub; see AsMiddleware for a middleware that needs values of the App.
func WithMiddleware(d Middleware) fx.Option {
	return fx.Supply(fx.Annotate(d, fx.ResultTags(`group:"`+middlewareGroup+`"`)))
}

// AsMiddleware marks a constructor of a Middleware: its result is applied to the remotes. It goes
// into an fx.Provide of the hub's App.
func AsMiddleware(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(`group:"`+middlewareGroup+`"`))
}
