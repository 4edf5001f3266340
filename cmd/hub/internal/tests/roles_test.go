// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// The account of a rehearsal gets nothing that goes past a policy, and may read what it writes.
func TestRehearsing(t *testing.T) {
	t.Parallel()
	got, err := roles.Rehearsing([]rbacv1.PolicyRule{
		rule("", "configmaps", "create", "patch"), rule("", "users", "impersonate"), rule("", "nodes/proxy", "get"),
		rule("", "pods/exec", "create"), rule("", "serviceaccounts/token", "create"),
		rule("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "delete"),
		rule("metrics.k8s.io", "pods", "list", "delete"), rule("apps", "*", "*"),
		{NonResourceURLs: []string{"/logs/*"}, Verbs: []string{"get", "post"}},
		{NonResourceURLs: []string{"/x"}, Verbs: []string{"post"}},
	}, []string{"metrics.k8s.io"})
	testkit.Must(t, err)
	testkit.Equal(t, got, []rbacv1.PolicyRule{
		rule("", "configmaps", "get", "create", "patch"), rule("metrics.k8s.io", "pods", "list"),
		rule("apps", "*", "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"),
		{NonResourceURLs: []string{"/logs/*"}, Verbs: []string{"get"}},
	}, "rules")
	for _, unlimited := range []rbacv1.PolicyRule{rule("*", "pods", "get"), rule("", "*", "get"), rule("", "*/proxy", "get")} {
		if _, err := roles.Rehearsing([]rbacv1.PolicyRule{unlimited}, nil); err == nil {
			t.Errorf("%v is accepted", unlimited)
		}
	}
}
