// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/catalog"
	"github.com/clusterfx/clusterfx/registry/moduleconfig"
	"github.com/clusterfx/clusterfx/registry/rbac"
	"github.com/clusterfx/clusterfx/registry/state"
)

func ruleOn(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// A refused informer is compared with the declared rules as the API server reads them: those of the module, of its
// configuration and of the registry itself, and in the hub those of the namespace.
func TestDeclaration_Undeclared(t *testing.T) {
	t.Parallel()
	named := ruleOn("", "secrets", "list", "watch")
	named.ResourceNames = []string{"own"}
	one := declarationOf(NewModule("one", ModuleOptions{
		Rules:    []rbacv1.PolicyRule{ruleOn("", "configmaps", "list"), named, ruleOn("apps", "*", "*")},
		HubRules: []rbacv1.PolicyRule{ruleOn("", "configmaps", "list", "watch")}, HubNamespaces: []string{"own"},
	}).inner, catalog.ConfigRules{
		Remote: []rbacv1.PolicyRule{ruleOn("", "pods", "list", "watch")},
		Hub: []rbac.NamespacedRules{
			{Rules: []rbacv1.PolicyRule{ruleOn("", "nodes", "list", "watch")}},
			{Namespace: "more", Rules: []rbacv1.PolicyRule{ruleOn("", "pods", "list", "watch")}},
		},
	})
	for path, c := range map[string]struct {
		inHub bool
		want  string
	}{
		"/apis/apps/v1/deployments":                         {},
		"/api/v1/namespaces/shop/pods":                      {},
		"/api/v1/configmaps?watch=true":                     {want: "watch configmaps"},
		"/k8s/one/api/v1/configmaps":                        {want: "watch configmaps"},
		"/api/v1/secrets":                                   {want: "list and watch secrets"},
		"/api/v1/secrets?fieldSelector=metadata.name%3Down": {},
		"/api/v1/secrets?fieldSelector=metadata.name%3Dan":  {want: "list and watch secrets"},
		"/api/v1/namespaces":                                {want: "list and watch namespaces"}, // The registry's rule is to get them.
		"/apis/batch/v1/namespaces/shop/jobs":               {want: "list and watch batch/jobs"},
		"/api/v1/nodes":                                     {inHub: true},
		"/api/v1/namespaces/own/configmaps":                 {inHub: true},
		"/api/v1/namespaces/more/configmaps":                {inHub: true, want: "list and watch configmaps in more"},
		"/api/v1/namespaces/more/pods":                      {inHub: true},
		"/api/v1/pods":                                      {inHub: true, want: "list and watch pods in all namespaces"},
	} {
		why, problem := one.undeclared(c.inHub, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		rules, kind := "Rules", state.ProblemUndeclaredRule
		if c.inHub {
			rules, kind = "HubRules", state.ProblemUndeclaredHubRule
		}
		want := fmt.Sprintf("module one does not declare %q in its %s", c.want, rules)
		if c.want == "" {
			want, kind = "", ""
		}
		if why != want || problem.Kind != kind {
			t.Errorf("%s: got %q and %v, want %q", path, why, problem, want)
		}
	}
	hubObjects := requestinfo.Info{Resource: "nodes"}
	testkit.Equal(t, one.lacks(true, hubObjects, "get", "list", "watch"), "get nodes in all namespaces", "missing for an object of the hub")
}

// A permission that follows from the configuration of other remotes is not declared in a remote, whether the module runs there or
// watches it from its hub part.
func TestUndeclaredIn(t *testing.T) {
	t.Parallel()
	type settings struct {
		Resource string `json:"resource"`
	}
	copies := NewModule("copies", ModuleOptions{
		Config: ConfigOf(func() settings { return settings{Resource: "secrets"} }),
		RulesOf: RulesOf(func(s settings) ConfigRules {
			return ConfigRules{Remote: []rbacv1.PolicyRule{ruleOn("", s.Resource, "list", "watch")}}
		}),
	})
	all, err := newCatalog(Options{Modules: []Module{copies}, ModuleConfigs: []moduleconfig.Config{{
		Name: "copies", Overrides: []moduleconfig.Override{{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}}, Config: json.RawMessage(`{"resource":"configmaps"}`),
		}},
	}}})
	testkit.Must(t, err)
	for tier, declared := range map[string]string{"core": "secrets", "edge": "configmaps"} {
		labels := map[string]string{"tier": tier}
		for where, run := range map[string][]catalog.Choice{"in its app": all.Select(&state.Desired{Labels: labels}, catalog.Facts{}).Run, "from its hub part": nil} {
			for _, resource := range []string{"secrets", "configmaps"} {
				refused := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/"+resource, http.NoBody)
				if why, _ := undeclaredIn(all, run, labels)("copies", refused); (why == "") != (resource == declared) {
					t.Errorf("%s, %s, %s: got %q, want %s to be declared", tier, where, resource, why, declared)
				}
				if why, _ := undeclaredIn(all, run, labels)("of another hub", refused); why != "" {
					t.Errorf("a module that the hub does not have: got %q", why)
				}
			}
		}
	}
}
