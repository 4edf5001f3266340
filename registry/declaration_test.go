// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

// The declaration of a module, with which refused requests are compared, has its rules for the server and the rules of
// the registry itself.
func TestDeclarationOf(t *testing.T) {
	t.Parallel()
	rule := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"list"}}
	}
	configured := catalog.ConfigRules{
		Remote: []rbacv1.PolicyRule{rule("secrets")},
		Hub: []catalog.NamespacedRules{
			{Rules: []rbacv1.PolicyRule{rule("nodes")}},
			{Namespace: "own", Rules: []rbacv1.PolicyRule{rule("secrets")}},
			{Namespace: "more", Rules: []rbacv1.PolicyRule{rule("pods"), {NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}}}},
		},
	}
	for name, c := range map[string]struct {
		options    ModuleOptions
		configured catalog.ConfigRules
		want       permissions.Declaration
	}{
		"nothing": {want: permissions.Declaration{Remote: rbac.RemoteRules[Module]()}},
		"all namespaces of the hub": {
			ModuleOptions{Rules: []rbacv1.PolicyRule{rule("pods")}, HubRules: []rbacv1.PolicyRule{rule("configmaps")}},
			catalog.ConfigRules{},
			permissions.Declaration{
				Remote: append(rbac.RemoteRules[Module](), rule("pods")),
				Hub:    []rbac.NamespacedRules{{Rules: []rbacv1.PolicyRule{rule("configmaps")}}},
			},
		},
		"a namespace of the hub": {
			ModuleOptions{HubRules: []rbacv1.PolicyRule{rule("configmaps")}, HubNamespaces: []string{"own"}},
			catalog.ConfigRules{},
			permissions.Declaration{
				Remote:     rbac.RemoteRules[Module](),
				Hub:        []rbac.NamespacedRules{{Namespace: "own", Rules: []rbacv1.PolicyRule{rule("configmaps")}}},
				Namespaces: []string{"own"},
			},
		},
		"a configuration": {
			ModuleOptions{Rules: []rbacv1.PolicyRule{rule("pods")}, HubRules: []rbacv1.PolicyRule{rule("configmaps")}, HubNamespaces: []string{"own"}},
			configured,
			permissions.Declaration{
				Remote: append(rbac.RemoteRules[Module](), rule("pods"), rule("secrets")),
				Hub: []rbac.NamespacedRules{
					{Rules: []rbacv1.PolicyRule{rule("nodes"), {NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}}}},
					{Namespace: "more", Rules: []rbacv1.PolicyRule{rule("pods")}},
					{Namespace: "own", Rules: []rbacv1.PolicyRule{rule("configmaps"), rule("secrets")}},
				},
				Namespaces: []string{"own", "more"},
			},
		},
	} {
		if diff := cmp.Diff(c.want, declarationOf(NewModule("one", c.options).inner, c.configured)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// A permission that follows from the configuration of other remotes is not declared in a remote, whether the module runs there or
// sends requests to it from its hub part.
func TestDeclaredIn(t *testing.T) {
	t.Parallel()
	type settings struct {
		Resource string `json:"resource"`
	}
	copies := NewModule("copies", ModuleOptions{
		Config: ConfigOf(func() settings { return settings{Resource: "secrets"} }),
		RulesOf: RulesOf(func(s settings) ConfigRules {
			return ConfigRules{Remote: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{s.Resource}, Verbs: []string{"create"}}}}
		}),
	})
	all, err := newCatalog(Options{Modules: []Module{copies}, ModuleConfigs: []moduleconfig.Config{{
		Name: "copies", Overrides: []moduleconfig.Override{{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}, Config: json.RawMessage(`{"resource":"configmaps"}`),
		}},
	}}})
	testkit.Must(t, err)
	for tier, want := range map[string]string{"core": "secrets", "edge": "configmaps"} {
		labels := map[string]string{"tier": tier}
		for where, run := range map[string][]catalog.Choice{"in its app": all.Select(&state.Desired{Labels: labels}, catalog.Facts{}).Run, "from its hub part": nil} {
			found, known := declaredIn(all, run, labels)("copies")
			if i := len(found.Remote) - 1; !known || i < 0 || !cmp.Equal(found.Remote[i].Resources, []string{want}) || i != len(rbac.RemoteRules[Module]()) {
				t.Errorf("%s, %s: got %+v, want to create %s alone", tier, where, found.Remote, want)
			}
		}
	}
}
