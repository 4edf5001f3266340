// SPDX-License-Identifier: Apache-2.0

package podcount

import (
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/registry"
)

// Module is the module.
var Module = registry.NewModule("podcount", registry.ModuleOptions{
	Description: "Counts Pods per namespace, and takes a greeting to every remote.",
	Remote:      fx.Invoke(CountPods), // in the app of every remote
	Hub:         fx.Invoke(Greet),     // in the hub
})
