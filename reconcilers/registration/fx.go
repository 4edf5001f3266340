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

	Manager  ctrl.Manager       // the hub's, made with cluster.ManagerOptions
	Registry *registry.Registry // Registry limits how many Clusters are removed
	Monitor  *liveness.Monitor  `optional:"true"` // Monitor watches the controller's workers. Default: none.
	Settings Settings           `optional:"true"` // Settings default to the zero value
}

// Module adds the controller of this package to the hub's manager.
var Module = fx.Module("registration", fx.Invoke(Setup))
