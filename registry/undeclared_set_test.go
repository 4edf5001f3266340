// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"net/http"
	"net/http/httptest"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A request that was refused is compared with the declared rules as the API server reads it.
func TestUse(t *testing.T) {
	t.Parallel()
	core := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	one := NewModule("one", ModuleOptions{
		Rules: []rbacv1.PolicyRule{
			core("namespaces", "list", "get"), core("configmaps", "patch"), core("configmaps/status", "patch"), core("pods", "delete"),
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"own"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		},
		HubRules: []rbacv1.PolicyRule{core("configmaps", "list")}, HubNamespaces: []string{"own"},
	})
	const apply = "application/apply-patch+yaml"
	for request, c := range map[string]struct {
		method, path, content string
		inHub                 bool
		want                  string
	}{
		"declared":                                 {method: "GET", path: "/api/v1/namespaces"},
		"declared by name":                         {method: "GET", path: "/api/v1/namespaces/shop"},
		"a watch":                                  {method: "GET", path: "/api/v1/namespaces?watch=true", want: "watch namespaces"},
		"one object, whatever the query":           {method: "GET", path: "/api/v1/namespaces/shop?watch=true"},
		"a status":                                 {method: "PUT", path: "/api/v1/namespaces/shop/status", want: "update namespaces/status"},
		"behind a prefix":                          {method: "GET", path: "/k8s/one/api/v1/namespaces?watch=1", want: "watch namespaces"},
		"in a namespace":                           {method: "POST", path: "/api/v1/namespaces/shop/configmaps", want: "create configmaps"},
		"a patch":                                  {method: "PATCH", path: "/api/v1/namespaces/shop/configmaps/a"},
		"an object that is applied may be new":     {method: "PATCH", path: "/api/v1/namespaces/shop/configmaps/a", content: apply, want: "create configmaps"},
		"a status that is applied":                 {method: "PATCH", path: "/api/v1/namespaces/shop/configmaps/a/status", content: apply},
		"one object of many":                       {method: "DELETE", path: "/api/v1/namespaces/shop/pods/a"},
		"many objects":                             {method: "DELETE", path: "/api/v1/namespaces/shop/pods", want: "deletecollection pods"},
		"the object of a rule":                     {method: "GET", path: "/api/v1/namespaces/shop/secrets/own"},
		"the object of a rule, by a selector":      {method: "GET", path: "/api/v1/secrets?fieldSelector=metadata.name%3Down"},
		"another object than that of a rule":       {method: "GET", path: "/api/v1/namespaces/shop/secrets/other", want: "get secrets"},
		"more objects than that of a rule":         {method: "GET", path: "/api/v1/secrets", want: "list secrets"},
		"a group":                                  {method: "DELETE", path: "/apis/apps/v1/deployments"},
		"another group":                            {method: "PUT", path: "/apis/batch/v1/namespaces/shop/jobs/a", want: "update batch/jobs"},
		"what the hub needs by itself":             {method: "POST", path: "/apis/events.k8s.io/v1/namespaces/shop/events"},
		"discovery":                                {method: "GET", path: "/apis/apps/v1"},
		"no resource":                              {method: "GET", path: "/metrics"},
		"declared in the hub":                      {method: "GET", path: "/api/v1/namespaces/own/configmaps", inHub: true},
		"another namespace than the hub's":         {method: "GET", path: "/api/v1/namespaces/shop/configmaps", inHub: true, want: "list configmaps in shop"},
		"declared in the hub, in some namespaces":  {method: "GET", path: "/api/v1/configmaps", inHub: true, want: "list configmaps in all namespaces"},
		"declared for remotes, and not in the hub": {method: "GET", path: "/api/v1/namespaces", inHub: true, want: "list namespaces in all namespaces"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody)
		r.Header.Set("Content-Type", c.content)
		got := ""
		if used, ok := useOf(r); ok {
			got = used.undeclaredBy(one, c.inHub)
		}
		if got != c.want {
			t.Errorf("%s: undeclared %q, want %q", request, got, c.want)
		}
	}
}

// The permissions that were found are bounded, and each is reported once.
func TestUndeclaredSet(t *testing.T) {
	t.Parallel()
	var s undeclaredSet
	if u := (UndeclaredAccess{Module: "b", Right: "list pods"}); !s.add(u) || s.add(u) || len(s.list()) != 1 {
		t.Errorf("found %v", s.list())
	}
	for i := range 2 * maxUndeclared {
		s.add(UndeclaredAccess{Module: "a", Right: string(rune('A' + i))})
	}
	if all := s.list(); len(all) != maxUndeclared || all[0].Module != "a" || all[maxUndeclared-1].Module != "b" {
		t.Errorf("%d were found: %v", len(all), all)
	}
}
