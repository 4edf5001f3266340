// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

// Params are what SetUp takes.
type Params struct {
	registry.Remote
}

// Module is the module.
var Module = registry.NewModule("inventory", registry.ModuleOptions{
	Description: "Reports the number of Nodes and their allocatable resources in the status of the Cluster.",
	Remote:      fx.Invoke(Setup),
	Rules:       []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}},
	HubRules: []rbacv1.PolicyRule{
		{APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{"get"}},
		{APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters/status"}, Verbs: []string{"patch"}},
	},
})
