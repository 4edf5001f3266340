// SPDX-License-Identifier: Apache-2.0

package podcount

import (
	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/registry"
)

// Module is the module.
var Module = registry.NewModule("podcount", registry.ModuleOptions{
	Description: "Counts Pods per namespace, and takes a greeting to every remote.",
	Remote:      fx.Invoke(CountPods), // in the app of every remote
	Hub:         fx.Invoke(Greet),     // in the hub
	HubRuns:     registry.WithRemotes, // in every replica, for its own remotes
	Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "patch"}},
	},
	HubRules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch", "create", "patch"}},
	},
})
