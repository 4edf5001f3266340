// SPDX-License-Identifier: Apache-2.0

package replica

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules returns what a Replica needs in its namespace beside creating ConfigMaps. Leases are named after Pods, which
// RBAC cannot list in advance, so the rules are for all Leases. ConfigMaps have fixed names; a list or a watch selects by name.
func Rules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			Verbs: []string{"create", "get", "list", "watch", verbPatch, "delete"},
		},
		{
			APIGroups: []string{""}, Resources: []string{configMaps}, ResourceNames: []string{installationName},
			Verbs: []string{"get", verbPatch},
		},
		{
			APIGroups: []string{""}, Resources: []string{configMaps}, ResourceNames: []string{assignmentName},
			Verbs: []string{"list", "watch", verbPatch},
		},
	}
}

const (
	configMaps = "configmaps"
	verbPatch  = "patch"
)
