// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry"
)

// Params are what Setup needs of the hub's App.
type Params struct {
	fx.In

	// Manager is the hub's. Its cache must have been made with CacheOptions.
	Manager ctrl.Manager
	// Registry runs the remotes.
	Registry *registry.Registry
	// Settings are what only the program knows. Default: those of the zero value.
	Settings Settings `optional:"true"`
}

// Module adds the controllers of this package to the hub's manager.
var Module = fx.Module("cluster", fx.Invoke(Setup))
