// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Params are what Setup needs of the hub's App.
type Params struct {
	fx.In

	// Manager is the hub's. Its cache holds Clusters, and Secrets of the credentials namespace.
	Manager ctrl.Manager
	// Registry runs the remotes.
	Registry *registry.Registry
	// Heartbeats watches the workers of the controller. Default: the workers are not watched.
	Heartbeats *liveness.Monitor `optional:"true"`
	// Settings are the settings of the program. Default: the zero value.
	Settings Settings `optional:"true"`
}

// Module adds the controller of this package to the hub's manager.
var Module = fx.Module("renewal", fx.Invoke(Setup))
