// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry"
)

// Rules on the same resources are merged into one rule, across modules and with the rules of the hub itself.
func TestRBAC_Merged(t *testing.T) {
	t.Parallel()
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	named := rule("", "configmaps", "get")
	named.ResourceNames = []string{"one"}
	one := registry.NewModule("one", registry.ModuleOptions{Rules: []rbacv1.PolicyRule{rule("", "pods", "get")}, HubRules: []rbacv1.PolicyRule{
		rule("clusterfx.dev", "clusters", "get"), rule("", "configmaps", "get", "list"), named,
	}})
	two := registry.NewModule("two", registry.ModuleOptions{Rules: []rbacv1.PolicyRule{rule("", "pods", "list", "get")}, HubRules: []rbacv1.PolicyRule{
		rule("", "configmaps", "list", "watch"), rule("clusterfx.dev", "clusters", "update"),
	}})
	want := `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: clusterfx-hub
rules:
- apiGroups:
  - clusterfx.dev
  resources:
  - clusters
  verbs:
  - get
  - list
  - watch
  - create
  - patch
  - delete
  - update
- apiGroups:
  - clusterfx.dev
  resources:
  - clusters/status
  verbs:
  - patch
- apiGroups:
  - ""
  resourceNames:
  - kube-system
  resources:
  - namespaces
  verbs:
  - get
- apiGroups:
  - ""
  resources:
  - configmaps
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - ""
  resourceNames:
  - one
  resources:
  - configmaps
  verbs:
  - get
`
	var out bytes.Buffer
	code := Execute(t.Context(), Program{
		Args: []string{"hub", "rbac", "--in=hub"}, Stdout: &out, Stderr: &out, Modules: []registry.Module{one, two},
	})
	got, _, _ := bytes.Cut(out.Bytes(), []byte("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"))
	if diff := cmp.Diff(want, string(got)); code != 0 || diff != "" {
		t.Errorf("exit status %d (-want +got):\n%s", code, diff)
	}
	remote := roles.OfRemote([]registry.Module{one, two}).(*rbacv1.ClusterRole)
	if diff := cmp.Diff(rule("", "pods", "get", "list"), remote.Rules[len(remote.Rules)-1]); diff != "" {
		t.Errorf("the role in remotes (-want +got):\n%s", diff)
	}
}
