// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
)

// Params are the dependencies of the remote part.
type Params struct {
	registry.Remote

	Config rules.Config
	Shared *shared
}

// HubParams are the dependencies of the hub part that one replica has.
type HubParams struct {
	registry.HubPart

	Config rules.Config
}

// Module runs in the remotes that spec.modules or the hub's configuration selects.
var Module = registry.NewModule(Name, registry.ModuleOptions{
	Description: "Copies objects between the hub and remotes by SyncRules.",
	Select:      registry.Selector{OnRequest: true},
	Config:      registry.ConfigOf(rules.Defaults),
	HubRules: []rbacv1.PolicyRule{
		{APIGroups: []string{hubv1.GroupName}, Resources: []string{"syncrules"}, Verbs: []string{"get", "list", "watch"}},
	},
	Remote:  fx.Options(fx.Invoke(SetUp), fx.Provide(registry.AsCleanup(cleanup))),
	Hub:     fx.Options(fx.Provide(newShared), registry.Share[*shared]()),
	HubRuns: registry.WithRemotes,
})
