// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkRules reports a rule that grants nothing.
func checkRules(rules []rbacv1.PolicyRule) error {
	for _, r := range rules {
		onPaths := len(r.NonResourceURLs) > 0
		if len(r.Verbs) == 0 || !onPaths && (len(r.APIGroups) == 0 || len(r.Resources) == 0) {
			return fmt.Errorf("the rule %s lacks verbs, apiGroups or resources", r.String())
		}
	}
	return nil
}

// RemoteRules returns the rights that the hub's user needs in a remote for some modules: what they declare,
// and what the registry does there by itself. Everything else that it does (asking for health, version, APIs
// and its own rights) Kubernetes allows to whoever is authenticated, by the roles system:discovery,
// system:public-info-viewer and system:basic-user.
func RemoteRules(modules ...Module) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		// Which cluster this is.
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"}},
		// What the modules record with Remote.Events.
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	for _, m := range modules {
		rules = append(rules, m.Rules()...)
	}
	return rules
}
