// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"go.uber.org/fx"

	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
)

// Params are the dependencies of the remote part.
type Params struct {
	registry.Remote

	Config rules.Config
}

// HubParams are the dependencies of the hub part.
type HubParams struct {
	registry.HubPart

	Config rules.Config
}

// Module runs in the remotes that spec.modules or the hub's configuration selects.
var Module = registry.NewModule(Name, registry.ModuleOptions{
	Description: "Copies objects between the hub and remotes by rules.",
	Select:      registry.Selector{OnRequest: true},
	Config:      registry.ConfigOf(rules.Defaults),
	RulesOf:     registry.RulesOf(rules.Permissions),
	Remote:      fx.Options(fx.Invoke(SetUp), fx.Provide(registry.AsCleanup(cleanup))),
	Hub:         fx.Invoke(SetUpHub),
	HubRuns:     registry.Once, // it reads objects of the hub only, also to learn what remotes do
})
