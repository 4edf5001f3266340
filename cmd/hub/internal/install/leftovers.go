// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

// Leftovers returns a warning for each role that may be of an earlier installation of this hub, as its name says, and that
// these objects do not replace, with the command that removes it: Roles for namespaces that modules no longer name or
// for replicas that no longer share the Clusters, and ClusterRoles with which a hub could impersonate any user. It changes
// nothing. Roles that it may not list are not looked at.
func Leftovers(ctx context.Context, c client.Reader, objects []*unstructured.Unstructured) ([]string, error) {
	var found rbacv1.RoleList
	var clusterRoles rbacv1.ClusterRoleList
	for _, list := range []client.ObjectList{&found, &clusterRoles} {
		if err := c.List(ctx, list); err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("look for roles of earlier installations: %w", err)
		}
	}
	applied := func(kind, namespace, name string) bool {
		return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == kind && o.GetNamespace() == namespace && o.GetName() == name
		})
	}
	var all []string
	for _, role := range found.Items {
		if role.Name == roles.ShardingRole && !applied("Role", role.Namespace, role.Name) {
			all = append(all, fmt.Sprintf("Role %s in namespace %s is of a hub whose replicas share the Clusters; a hub needs it until it has "+
				"changed to the mode Leader; when hub check names a leader, remove it: kubectl delete role,rolebinding %s --namespace %s",
				role.Name, role.Namespace, role.Name, role.Namespace))
			continue
		}
		optional := []string{roles.ModulesRole, roles.AppsRole}
		if slices.Contains(optional, role.Name) && !applied("Role", role.Namespace, role.Name) {
			all = append(all, fmt.Sprintf("Role %s in namespace %s is not of this installation; "+
				"unless its RoleBinding names another hub that runs, it is of an earlier one, and to be removed: kubectl delete role,rolebinding %s --namespace %s", role.Name, role.Namespace, role.Name, role.Namespace))
		}
	}
	for _, role := range clusterRoles.Items {
		isOurs := strings.HasPrefix(role.Name, "clusterfx-") && slices.ContainsFunc(role.Rules, impersonatesAnybody)
		if isOurs && !applied("ClusterRole", "", role.Name) {
			all = append(all, fmt.Sprintf("ClusterRole %s allows to impersonate any user, and so to become an administrator; "+
				"no hub needs it; remove it: kubectl delete clusterrole %s, and the ClusterRoleBindings that name it", role.Name, role.Name))
		}
	}
	return all, nil
}

// impersonatesAnybody reports whether a rule allows to impersonate users, groups or ServiceAccounts without naming them.
func impersonatesAnybody(rule rbacv1.PolicyRule) bool {
	anyOf := func(all []string, some ...string) bool {
		return slices.ContainsFunc(all, func(one string) bool { return slices.Contains(some, one) })
	}
	return anyOf(rule.Verbs, "impersonate", rbacv1.VerbAll) && anyOf(rule.APIGroups, "", rbacv1.APIGroupAll) &&
		anyOf(rule.Resources, "users", "groups", "serviceaccounts", rbacv1.ResourceAll) && len(rule.ResourceNames) == 0
}
