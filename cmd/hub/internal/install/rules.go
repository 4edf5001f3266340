// SPDX-License-Identifier: Apache-2.0

package install

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

// eventsRole is the name of the Role for events in the manifests.
const eventsRole = "clusterfx-hub-events"

// replaceRules puts the rules into a role of the hub, and leaves the roles of people alone.
func replaceRules(r *roles.Rules, role *unstructured.Unstructured) error {
	if r == nil {
		return nil
	}
	var rules []rbacv1.PolicyRule
	switch role.GetKind() + "/" + role.GetName() {
	case "ClusterRole/" + roles.HubRole:
		rules = r.Everywhere
	case "Role/" + roles.HubRole:
		rules = r.Own
	case "Role/" + eventsRole:
		rules = r.Events
	case "Role/" + roles.ShardingRole:
		rules = r.Sharding
	case "ClusterRole/" + roles.AppsRole:
		rules = r.Apps
	default:
		return nil
	}
	loose := make([]any, 0, len(rules))
	for _, rule := range rules {
		one, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rule)
		if err != nil {
			return err
		}
		loose = append(loose, one)
	}
	return unstructured.SetNestedSlice(role.Object, loose, "rules")
}

// inNamespaces returns a Role and a RoleBinding for each namespace of Modules, bound to a subject.
func inNamespaces(r *roles.Rules, name string, subject rbacv1.Subject) ([]*unstructured.Unstructured, error) {
	if r == nil {
		return nil, nil
	}
	var all []*unstructured.Unstructured
	for _, needed := range r.Modules {
		meta := metav1.ObjectMeta{
			Namespace: needed.Namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "clusterfx"},
		}
		kind := func(kind string) metav1.TypeMeta {
			return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
		}
		for _, typed := range []runtime.Object{
			&rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: needed.Rules},
			&rbacv1.RoleBinding{
				TypeMeta: kind("RoleBinding"), ObjectMeta: meta, Subjects: []rbacv1.Subject{subject},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			},
		} {
			loose, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
			if err != nil {
				return nil, err
			}
			all = append(all, &unstructured.Unstructured{Object: loose})
		}
	}
	return all, nil
}
