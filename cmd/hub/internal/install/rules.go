// SPDX-License-Identifier: Apache-2.0

package install

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Rules are the rights of a hub in its own cluster.
type Rules struct {
	// Everywhere are those in the whole cluster, Own those in the namespace of the hub, and Events those in the
	// namespace default.
	Everywhere, Own, Events []rbacv1.PolicyRule
}

// Names of the roles in the manifests.
const (
	hubRole    = "clusterfx-hub"
	eventsRole = "clusterfx-hub-events"
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
