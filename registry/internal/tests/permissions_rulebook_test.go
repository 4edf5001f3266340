// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/permissions"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/registry/state"
)

// The list of undeclared permissions is bounded, and each permission is reported once.
func TestRulebook_Bounded(t *testing.T) {
	t.Parallel()
	b := permissions.New(func(string) (permissions.Declaration, bool) { return permissions.Declaration{}, true })
	judge := func(module, resource string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/"+resource, http.NoBody)
		b.Judge(permissions.Requests{Senders: []string{module}, Log: logr.Discard(), Explain: plain})(r, http.StatusForbidden)
	}
	judge("b", "pods")
	judge("b", "pods")
	if all := b.Undeclared(); len(all) != 1 {
		t.Errorf("got undeclared permissions %v", all)
	}
	for i := range 300 {
		judge("a", fmt.Sprintf("kind%d", i))
	}
	if all := b.Undeclared(); len(all) != 256 || all[0].Module != "a" || all[255].Module != "b" {
		t.Errorf("got %d undeclared permissions: %v", len(all), all)
	}
}

// A request without a module lacks a permission if no module that may have sent it declares the permission. Other
// responses, and modules outside of the hub, are not judged.
func TestRulebook_Senders(t *testing.T) {
	t.Parallel()
	lists := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}}
	for name, c := range map[string]struct {
		senders []string
		status  int
		want    []state.UndeclaredAccess
	}{
		"the only sender":          {[]string{"idle"}, http.StatusForbidden, []state.UndeclaredAccess{{Module: "idle", Right: "list pods"}}},
		"every sender":             {[]string{"idle", "lazy"}, http.StatusForbidden, []state.UndeclaredAccess{{Module: "idle or lazy", Right: "list pods"}}},
		"one sender may":           {[]string{"idle", "lists"}, http.StatusForbidden, nil},
		"a sender that is unknown": {[]string{"idle", "other"}, http.StatusForbidden, nil},
		"no sender":                {nil, http.StatusForbidden, nil},
		"another status":           {[]string{"idle"}, http.StatusUnauthorized, nil},
	} {
		b := permissions.New(func(module string) (permissions.Declaration, bool) {
			if module == "lists" {
				return permissions.Declaration{Remote: lists}, true
			}
			return permissions.Declaration{}, module != "other"
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", http.NoBody)
		b.Judge(permissions.Requests{Senders: c.senders, Log: logr.Discard(), Explain: plain})(r, c.status)
		testkit.Equal(t, b.Undeclared(), c.want, name)
	}
}

// The log contains the advice of the program.
func TestRulebook_LogsAdvice(t *testing.T) {
	t.Parallel()
	var logged []string
	b := permissions.New(func(string) (permissions.Declaration, bool) { return permissions.Declaration{}, true })
	judge := b.Judge(permissions.Requests{
		InHub: true, Senders: []string{"idle"},
		Log:     funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}),
		Explain: func(message string, problem state.Problem) string { return message + ": " + string(problem.Kind) },
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", http.NoBody)
	judge(r, http.StatusForbidden)
	judge(r, http.StatusForbidden)
	const want = `module idle does not declare \"list pods\" in its HubRules: UndeclaredHubRule`
	if len(logged) != 1 || !strings.Contains(logged[0], want) {
		t.Errorf("got log %q, want %s once", logged, want)
	}
}

// plain is Requests.Explain without advice.
func plain(message string, _ state.Problem) string { return message }
