// SPDX-License-Identifier: Apache-2.0

package install

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry"
)

// Rules are the rights of a hub in its own cluster.
type Rules struct {
	// Everywhere are those in the whole cluster, Own those in the namespace of the hub, and Events those in the
	// namespace default.
	Everywhere, Own, Events []rbacv1.PolicyRule
	// Modules are those that modules need in single namespaces, which have to exist.
	Modules []registry.NamespacedRules
}

// Names of the roles in the manifests.
const (
	hubRole    = "clusterfx-hub"
	eventsRole = "clusterfx-hub-events"
	// ModulesRole is the name of the Role, and of its binding, in each namespace of Rules.Modules.
	ModulesRole = "clusterfx-hub-modules"
)

// replace puts the rules into a role of the hub's, and leaves those of people alone.
func (r *Rules) replace(role *unstructured.Unstructured) error {
	if r == nil {
		return nil
	}
	var rules []rbacv1.PolicyRule
	switch role.GetKind() + "/" + role.GetName() {
	case "ClusterRole/" + hubRole:
		rules = r.Everywhere
	case "Role/" + hubRole:
		rules = r.Own
	case "Role/" + eventsRole:
		rules = r.Events
	default:
		return nil
	}
	return setRules(role, rules)
}

func setRules(role *unstructured.Unstructured, rules []rbacv1.PolicyRule) error {
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

// ofModules returns a Role and a RoleBinding for each namespace of Modules. They are copies of those for events, with
// other rules.
func (r *Rules) ofModules(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if r == nil {
		return nil, nil
	}
	var all []*unstructured.Unstructured
	for _, needed := range r.Modules {
		for _, object := range objects {
			if object.GetName() != eventsRole {
				continue
			}
			one := object.DeepCopy()
			one.SetName(ModulesRole)
			one.SetNamespace(needed.Namespace)
			var err error
			if one.GetKind() == "Role" {
				err = setRules(one, needed.Rules)
			} else {
				err = unstructured.SetNestedField(one.Object, ModulesRole, "roleRef", "name")
			}
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	return all, nil
}
