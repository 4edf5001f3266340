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

type params struct {
	fx.In

	// Manager is the hub's. The registry is one of its runnables: the apps end before the hub gives up its lease.
	Manager    ctrl.Manager
	Log        logr.Logger
	Modules    []Module     `group:"clusterfx-modules"`
	Shared     []Shared     `group:"clusterfx-shared"`
	Middleware []Middleware `group:"clusterfx-middleware"`
	Journal    Journal      `optional:"true"`
	// Lifecycle builds the hub parts before the manager starts, and runs their hooks when it has ended.
	Lifecycle  fx.Lifecycle
	Shutdowner fx.Shutdowner
	// Options are what only the program knows. FX sets Hub, HubMapper, HubCache, Scheme, Log, Modules, Shared and Middleware.
	Options Options `optional:"true"`
}

// FX provides a *Registry to the hub's App, and runs each module's hub part in an App of its own.
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
	p.Lifecycle.Append(fx.Hook{OnStart: parts.OnStart, OnStop: parts.OnStop})
	return r, errors.Join(p.Manager.Add(r), p.Manager.Add(parts), p.Manager.Add(parts.Leading()))
}

// Shared is a value of a hub part that goes into every app; see Share.
type Shared = catalog.Shared

const sharedGroup = "clusterfx-shared"

// Share gives a value to the apps of all remotes: the constructor in a module's hub part builds it once, and the remote
// part of any module may ask for a T. It goes into the hub part of a module, or into the options of the hub:
//
//	registry.ModuleOptions{
//		Hub:     fx.Options(fx.Provide(NewPool), registry.Share[*Pool]()),
//		HubRuns: registry.WithRemotes,
//		Remote:  fx.Invoke(Setup), // may ask for a *Pool
//	}
//
// The value must be safe for use by many goroutines. Its hooks run in its hub part, which ends after all apps. While
// that hub part does not run, modules whose remote part needs the value wait. Two hub parts that share the same T, or a
// T that an app has already, such as client.Client, are an error when the hub starts.
func Share[T any]() fx.Option {
	share := func(value T) Shared {
		return Shared{Type: reflect.TypeFor[T](), Provide: fx.Provide(func() T { return value })}
	}
	var none T
	return fx.Options(
		fx.Provide(fx.Annotate(share, fx.ResultTags(`group:"`+sharedGroup+`"`))),
		fx.Supply(fx.Annotate(share(none), fx.ResultTags(`group:"`+sharedGroup+`-types"`))),
	)
}

const middlewareGroup = "clusterfx-middleware"

// WithMiddleware adds a middleware in a hub part or the hub's options. AsMiddleware is for one that needs values of the App.
func WithMiddleware(d Middleware) fx.Option {
	return fx.Supply(fx.Annotate(d, fx.ResultTags(`group:"`+middlewareGroup+`"`)))
}

// AsMiddleware marks a constructor of a Middleware, for an fx.Provide of the hub's App.
func AsMiddleware(constructor any) any {
	return fx.Annotate(constructor, fx.ResultTags(`group:"`+middlewareGroup+`"`))
}
