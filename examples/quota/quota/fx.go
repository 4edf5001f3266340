// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/registry"
)

// Module is the module.
var Module = registry.NewModule("quota", registry.ModuleOptions{
	Description: "Gives every Namespace with the label team a ResourceQuota.",
	Remote: fx.Options( // in the app of every remote
		fx.Invoke(Enforce),
		fx.Provide(registry.AsCleanup(Cleanup)),
	),
	Hub:     fx.Invoke(Count),     // in the hub
	HubRuns: registry.WithRemotes, // in every replica, for its own remotes
	Config:  registry.ConfigOf(Defaults),
	Select:  registry.Selector{MinVersion: "1.30"},
	CacheFilters: []registry.CacheFilter{ // the module sees only its own objects
		{Object: &corev1.ResourceQuota{}, Labels: labels.SelectorFromSet(labels.Set{managed: "true"})},
	},
	Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"resourcequotas"}, Verbs: []string{"list", "watch", "create", "update", "delete"}},
	},
	HubRules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "patch"}},
	},
	HubNamespaces: []string{metav1.NamespaceDefault}, // where Count writes
})
