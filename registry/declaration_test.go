// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// The declaration of a module, with which refused requests are compared, has its rules for the server and the rules of
// the registry itself.
func TestDeclarationOf(t *testing.T) {
	t.Parallel()
	rule := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"list"}}
	}
	for name, c := range map[string]struct {
		options ModuleOptions
		want    permissions.Declaration
	}{
		"nothing": {want: permissions.Declaration{Remote: rbac.RemoteRules[Module]()}},
		"all namespaces of the hub": {
			ModuleOptions{Rules: []rbacv1.PolicyRule{rule("pods")}, HubRules: []rbacv1.PolicyRule{rule("configmaps")}},
			permissions.Declaration{
				Remote: append(rbac.RemoteRules[Module](), rule("pods")),
				Hub:    []rbac.NamespacedRules{{Rules: []rbacv1.PolicyRule{rule("configmaps")}}},
			},
		},
		"a namespace of the hub": {
			ModuleOptions{HubRules: []rbacv1.PolicyRule{rule("configmaps")}, HubNamespaces: []string{"own"}},
			permissions.Declaration{
				Remote:       rbac.RemoteRules[Module](),
				Hub:          []rbac.NamespacedRules{{Namespace: "own", Rules: []rbacv1.PolicyRule{rule("configmaps")}}},
				InNamespaces: true,
			},
		},
	} {
		if diff := cmp.Diff(c.want, declarationOf(NewModule("one", c.options).inner)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
