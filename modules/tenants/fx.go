// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/registry"
)

// Module is the module. It needs natshub.Module.
var Module = registry.NewModule("tenants", registry.ModuleOptions{
	Description: "Makes the tenants of a NATS bucket in the remotes that are meant for them.",
	Select:      registry.Selector{OnRequest: true},
	Remote:      fx.Options(fx.Invoke(SetUp), fx.Provide(registry.AsCleanup(cleanup))),
	Inputs:      []registry.Input{{Name: Bucket, Check: entity.CheckJSON(Validate)}},
	Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "resourcequotas"}, Verbs: verbs()},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"networkpolicies"}, Verbs: verbs()},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: verbs()},
		// To bind the ClusterRole without having its permissions.
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"admin"}, Verbs: []string{"bind"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	},
})

func verbs() []string { return []string{"get", "list", "watch", "create", "patch", "delete"} }
