// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"github.com/go-logr/logr"
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Params are what the hub's App must hold for FX.
type Params struct {
	fx.In

	// Manager is the hub's. The registry is added to it as a runnable, so that the apps end
	// before the hub gives up its lease.
	Manager ctrl.Manager
	Log     logr.Logger
	// Modules are collected from every Module.Option in the App.
	Modules []Module `group:"clusterfx-modules"`
	// Journal takes the place of Options.Journal.
	Journal Journal `optional:"true"`
	// Options carry what only the program knows (policy, limits, the hub's id). Hub, HubMapper,
	// HubCache, Scheme, Log and Modules are filled in from the rest.
	Options Options `optional:"true"`
}

// FX provides a *Registry to the hub's App.
var FX = fx.Module("registry", fx.Provide(provide))

func provide(p Params) (*Registry, error) {
	o := p.Options
	o.Hub, o.HubMapper, o.HubCache = p.Manager.GetConfig(), p.Manager.GetRESTMapper(), p.Manager.GetCache()
	o.Scheme, o.Log, o.Modules = p.Manager.GetScheme(), p.Log.WithName("registry"), p.Modules
	if p.Journal != nil {
		o.Journal = p.Journal
	}
	r, err := New(o)
	if err != nil {
		return nil, err
	}
	return r, p.Manager.Add(r)
}
