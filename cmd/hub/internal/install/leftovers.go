// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

// Leftovers returns a warning for each role that may be of an earlier installation of this hub, as its name says, and that
// these objects do not replace, with the command that removes it: Roles for namespaces that modules no longer name or
// for replicas that no longer share the Clusters. It changes nothing, and says nothing if it may not list roles.
func Leftovers(ctx context.Context, c client.Reader, objects []*unstructured.Unstructured) ([]string, error) {
	var found rbacv1.RoleList
	if err := c.List(ctx, &found); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("look for roles of earlier installations: %w", err)
	}
	var all []string
	for _, role := range found.Items {
		if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == "Role" && o.GetNamespace() == role.Namespace && o.GetName() == role.Name
		}) {
			continue
		}
		switch role.Name {
		case roles.ShardingRole:
			all = append(all, fmt.Sprintf("Role %s in namespace %s is of a hub whose replicas share the Clusters; a hub needs it until it has "+
				"changed to the mode Leader; when hub check names a leader, remove it: kubectl delete role,rolebinding %s --namespace %s",
				role.Name, role.Namespace, role.Name, role.Namespace))
		case roles.ModulesRole, roles.AppsRole:
			all = append(all, fmt.Sprintf("Role %s in namespace %s is not of this installation; "+
				"unless its RoleBinding names another hub that runs, it is of an earlier one, and to be removed: kubectl delete role,rolebinding %s --namespace %s", role.Name, role.Namespace, role.Name, role.Namespace))
		}
	}
	return all, nil
}
