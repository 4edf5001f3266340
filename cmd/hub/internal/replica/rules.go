// SPDX-License-Identifier: Apache-2.0

package replica

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules returns the permissions that a Replica needs in its namespace, beside that to create Leases and ConfigMaps. The names
// of replicas are those of Pods, which RBAC cannot list in advance, and the watches select by label: so the rules apply to all
// Leases of the namespace, and to the reads of all ConfigMaps.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			Verbs: []string{"get", "list", "watch", verbPatch, "delete"},
		},
		{APIGroups: []string{""}, Resources: []string{configMaps}, Verbs: []string{"get", "list", "watch"}},
		{
			APIGroups: []string{""}, Resources: []string{configMaps}, ResourceNames: []string{installationName, assignmentName},
			Verbs: []string{verbPatch},
		},
	}
}

// Words of rules that occur in several of them.
const (
	configMaps = "configmaps"
	verbPatch  = "patch"
)
