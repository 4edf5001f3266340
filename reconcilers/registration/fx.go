// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"go.uber.org/fx"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/liveness"
)

// Params are what Setup needs of the hub's App.
type Params struct {
	fx.In

	// Manager is the hub's, made with cluster.ManagerOptions.
	Manager ctrl.Manager
	// Registry limits how many Clusters are removed.
	Registry *registry.Registry
	// Heartbeats watches the controller's workers. Default: none.
	Heartbeats *liveness.Monitor `optional:"true"`
	// Settings default to the zero value.
	Settings Settings `optional:"true"`
}

// Module adds the controller of this package to the hub's manager.
var Module = fx.Module("registration", fx.Invoke(Setup))
