// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry"
)

// Params are what Setup needs. Remote holds everything that an app provides.
type Params struct {
	registry.Remote
}

// Module is the module.
var Module = registry.NewModule("inventory", registry.ModuleOptions{
	Description: "Reports the number of Nodes and what they offer to Pods in the status of the Cluster.",
	Remote:      fx.Invoke(Setup),
})
