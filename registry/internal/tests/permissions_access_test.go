// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/clusterfx/clusterfx/registry/internal/permissions"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/rbac"
)

// A refused request is compared with the declared rules as the API server reads it.
func TestAccess(t *testing.T) {
	t.Parallel()
	core := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	one := permissions.Declaration{
		Remote: []rbacv1.PolicyRule{
			core("namespaces", "list", "get"), core("configmaps", "patch"), core("configmaps/status", "patch"), core("pods", "delete"),
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"own"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		},
		Hub: []rbac.NamespacedRules{{Namespace: "own", Rules: []rbacv1.PolicyRule{core("configmaps", "list")}}}, Namespaces: []string{"own"},
	}
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
		"discovery":                                {method: "GET", path: "/apis/apps/v1"},
		"no resource":                              {method: "GET", path: "/metrics"},
		"declared in the hub":                      {method: "GET", path: "/api/v1/namespaces/own/configmaps", inHub: true},
		"another namespace than the hub's":         {method: "GET", path: "/api/v1/namespaces/shop/configmaps", inHub: true, want: "list configmaps in shop"},
		"declared in the hub, in some namespaces":  {method: "GET", path: "/api/v1/configmaps", inHub: true, want: "list configmaps in all namespaces"},
		"declared for remotes, and not in the hub": {method: "GET", path: "/api/v1/namespaces", inHub: true, want: "list namespaces in all namespaces"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, http.NoBody)
		r.Header.Set("Content-Type", c.content)
		book := permissions.New(func(string) (permissions.Declaration, bool) { return one, true })
		book.Judge(permissions.Requests{InHub: c.inHub, Senders: []string{"one"}, Log: logr.Discard(), Explain: plain})(r, http.StatusForbidden)
		got := ""
		for _, u := range book.Undeclared() {
			got += u.Right
		}
		if got != c.want {
			t.Errorf("%s: got undeclared %q, want %q", request, got, c.want)
		}
	}
}
