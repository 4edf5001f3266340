// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
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
  - apiextensions.k8s.io
  resources:
  - customresourcedefinitions
  verbs:
  - get
- apiGroups:
  - ""
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
	testkit.Equal(t, remote.Rules[len(remote.Rules)-1], rule("", "pods", "get", "list"), "the role in remotes")
}

// The role in a remote has the permissions of the modules that select remotes by themselves, of those that --modules names, or of those
// that a Cluster runs.
func TestRBAC_InRemote(t *testing.T) {
	t.Parallel()
	module := func(name string, onRequest bool) registry.Module {
		return registry.NewModule(name, registry.ModuleOptions{
			Select: registry.Selector{OnRequest: onRequest},
			Rules:  []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"of-" + name}, Verbs: []string{"get"}}},
		})
	}
	cluster := fleettest.Cluster(t, "hub")
	fleettest.InstallCRDs(t, cluster.Config())
	c, err := access.New("the hub", cluster.Config())
	must(t, err)
	one := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "of-rbac"}, Spec: hubv1.ClusterSpec{
		KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "s"}, Modules: []string{"asked"},
	}}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, errors.Join(c.Create(t.Context(), one), os.WriteFile(file, cluster.Kubeconfig(), 0o600)))
	for args, want := range map[string][]string{
		"":                                       {"of-usual"},
		"--modules=asked":                        {"of-asked"},
		"--cluster=of-rbac --kubeconfig=" + file: {"of-asked"},
	} {
		var out, problems bytes.Buffer
		code := Execute(t.Context(), Program{
			Args: append([]string{"hub", "rbac", "--in=remote"}, strings.Fields(args)...), Stdout: &out, Stderr: &problems,
			Modules: []registry.Module{module("usual", false), module("asked", true)},
		})
		if got := regexp.MustCompile("of-[a-z]+").FindAllString(out.String(), -1); code != 0 || !slices.Equal(got, want) {
			t.Errorf("%s: exit status %d, %v, want %v\n%s", args, code, got, want, problems.String())
		}
	}
}
