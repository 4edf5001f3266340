// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
)

// Leftovers names roles of earlier installations that no object replaces, with the command that removes each role.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	c, _ := installed(t)
	all := objects(t, install.Options{})
	leftovers := func() string {
		t.Helper()
		left, err := install.Leftovers(t.Context(), c, all)
		must(t, err)
		return strings.Join(left, "\n")
	}
	before := leftovers()
	modules := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: roles.ModulesRole}}
	must(t, c.Create(t.Context(), modules))
	after := leftovers()
	const command = "kubectl delete role,rolebinding clusterfx-hub-modules --namespace default"
	if strings.Contains(before, command) || !strings.Contains(after, command) {
		t.Errorf("want %q in\n%s", command, after)
	}
	if strings.Count(after, "kubectl") != strings.Count(before, "kubectl")+1 {
		t.Errorf("other roles are named, too:\n%s", after)
	}
}
