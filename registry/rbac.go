// SPDX-License-Identifier: Apache-2.0

package registry

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/registry/internal/catalog"
)

// RemoteRules returns the permissions that the hub's user needs in a remote for some modules: the permissions that
// they declare, and those of the registry itself. Kubernetes grants the rest (reading health, version, APIs and its
// own permissions) to every authenticated user, by the roles system:discovery, system:public-info-viewer and
// system:basic-user.
func RemoteRules(modules ...Module) []rbacv1.PolicyRule {
	return catalog.RemoteRules(inCatalog(modules)...)
}

// NamespacedRules are rules that apply to one namespace, or to the whole cluster if Namespace is empty.
type NamespacedRules struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// HubRules returns the permissions that modules need in the hub: first the rules for the whole cluster, if there are
// any, then the rules for each of their HubNamespaces, sorted by name.
func HubRules(modules ...Module) []NamespacedRules {
	var all []NamespacedRules
	for _, r := range catalog.HubRules(inCatalog(modules)...) {
		all = append(all, NamespacedRules(r))
	}
	return all
}

// HubUser returns who the app of a remote is at the hub's API server where Options.Impersonate is set: the
// ServiceAccount in Options.AppsNamespace that has the remote's name.
func HubUser(appsNamespace string, remote ClusterName) string {
	return "system:serviceaccount:" + appsNamespace + ":" + string(remote)
}

// HubGroup returns the group of these ServiceAccounts.
func HubGroup(appsNamespace string) string { return "system:serviceaccounts:" + appsNamespace }
