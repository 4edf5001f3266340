// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	rbacv1 "k8s.io/api/rbac/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

const (
	verbGet    = "get"
	verbPatch  = "patch"
	configMaps = "configmaps"
)

// Rules returns the permissions on Clusters that the controllers of this package and of package registration need.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters"},
			Verbs: []string{"get", "list", "watch", "create", verbPatch, "delete"},
		},
		{APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters/status"}, Verbs: []string{verbPatch}},
		// What went with a definition or a Namespace was not deleted on purpose. The id of the hub is that of a Namespace, too.
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{verbGet}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{verbGet}},
	}
}

// HoldsName is the name of the ConfigMap, in the credentials namespace, that keeps the holds of deletes.
const HoldsName = "clusterfx-deletes"

// CredentialsRules are for the credentials namespace: Secrets, journal, holds. RBAC cannot limit a creation to a name.
func CredentialsRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{configMaps}, Verbs: []string{"create"}},
		{
			APIGroups: []string{""}, Resources: []string{configMaps}, ResourceNames: []string{JournalName},
			Verbs: []string{verbGet, verbPatch},
		},
		{
			APIGroups: []string{""}, Resources: []string{configMaps}, ResourceNames: []string{HoldsName},
			Verbs: []string{"get", verbPatch},
		},
	}
}

// EventRules are for the credentials namespace and default, which has events of objects without a namespace.
func EventRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", verbPatch}},
	}
}
