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

// Module runs in all remotes, unless spec.modules or the hub's configuration selects some: it does nothing without a rule, and a rule has
// a selector of its own. Its hub part reports what the apps of a replica say of the rules.
var Module = moduleWith(usual())

func moduleWith(p periods) registry.Module {
	return registry.NewModule(Name, registry.ModuleOptions{
		Description: "Copies objects between the hub and remotes by SyncRules.",
		Config:      registry.ConfigOf(rules.Defaults),
		HubRules: []rbacv1.PolicyRule{
			hubRule("syncrules", "get", "list", "watch"), hubRule("syncrules/status", "patch"),
			hubRule("clusters", "get"), hubRule("clusters/status", "patch"), definitionsOfRules(),
		},
		Remote:  fx.Options(fx.Invoke(SetUp), fx.Provide(registry.AsCleanup(cleanup))),
		Hub:     fx.Options(fx.Provide(func() *shared { return newShared(p) }), registry.Share[*shared](), fx.Invoke(SetUpReplica)),
		HubRuns: registry.WithRemotes,
	})
}

// RulesModule is the hub part that one replica has: conditions, the end of rules, and deleted originals whose remote has gone.
var RulesModule = registry.NewModule(RulesName, registry.ModuleOptions{
	Description: "Reports SyncRules, and ends them when they are deleted.",
	HubRules: []rbacv1.PolicyRule{
		hubRule("syncrules", "get", "list", "watch", "patch"), hubRule("syncrules/status", "patch"),
		hubRule("clusters", "get", "list", "watch"), hubRule("clusters/status", "patch"), definitionsOfRules(),
	},
	Hub:     fx.Invoke(SetUpHub),
	HubRuns: registry.Once, // it reads objects of the hub only, also to learn what remotes do
})

// RulesName is the name of RulesModule.
const RulesName = Name + "-rules"

func hubRule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{hubv1.GroupName}, Resources: []string{resource}, Verbs: verbs}
}

// definitionsOfRules: a definition that is being deleted takes all rules with it.
func definitionsOfRules() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"},
		ResourceNames: []string{"syncrules." + hubv1.GroupName},
	}
}
