// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Params are the values that Setup needs from the hub's App.
type Params struct {
	fx.In

	// Manager is the hub's. It must have been made with cluster.ManagerOptions.
	Manager ctrl.Manager
	// Registry limits how many Clusters are removed.
	Registry *registry.Registry
	// Heartbeats watches the workers of the controller. Default: no heartbeats.
	Heartbeats *liveness.Monitor `optional:"true"`
	// Settings configure the controller. Default: the zero value.
	Settings Settings `optional:"true"`
}

// Module adds the controller of this package to the hub's manager.
var Module = fx.Module("registration", fx.Invoke(Setup))
