// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// appsNamespace returns the namespace of these ServiceAccounts, empty for none.
func (o Options) appsNamespace() string {
	if !o.Impersonate {
		return ""
	}
	return cmp.Or(o.AppsNamespace, roles.AppsNamespace(o.Namespace))
}

// impersonation returns the objects for apps that act as ServiceAccounts of their own.
func (o Options) impersonation() ([]*unstructured.Unstructured, error) {
	namespace := o.appsNamespace()
	if namespace == "" {
		return nil, nil
	}
	objects, err := folder("impersonation")
	if err != nil {
		return nil, err
	}
	group := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: rbac.HubGroup(namespace)}
	for _, object := range objects {
		switch {
		case object.GetKind() == "Namespace":
			object.SetName(namespace)
		case object.GetNamespace() != "":
			object.SetNamespace(namespace)
		}
		switch object.GetKind() {
		case "ClusterRole":
			err = replaceRules(o.Rules, object)
		case "ClusterRoleBinding":
			err = unstructured.SetNestedField(object.Object, []any{
				map[string]any{"apiGroup": group.APIGroup, "kind": group.Kind, "name": group.Name},
			}, "subjects")
		case "RoleBinding":
			err = o.bind(object)
		}
		if err != nil {
			return nil, err
		}
	}
	ofModules, err := inNamespaces(o.Rules, roles.AppsRole, group)
	return append(objects, ofModules...), err
}
