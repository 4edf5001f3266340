// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// copying is the configuration of a module that copies objects of a resource from a namespace of the hub.
type copying struct {
	Resource string `json:"resource"`
	From     string `json:"from"`
}

// copies returns a module whose permissions follow from its configuration, and which runs where that selects it.
func copies() registry.Module {
	of := func(resource string, verbs ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}}
	}
	return registry.NewModule("copies", registry.ModuleOptions{
		Config: registry.ConfigOf(func() copying { return copying{Resource: "configmaps", From: "default"} }),
		RulesOf: registry.RulesOf(func(c copying) registry.ConfigRules {
			return registry.ConfigRules{
				Remote: of(c.Resource, "create"), Hub: []rbac.NamespacedRules{{Namespace: c.From, Rules: of(c.Resource, "get")}},
			}
		}),
		Select: registry.Selector{OnRequest: true},
		Remote: fx.Invoke(func(registry.Remote) {}),
	})
}

// copiesConfig is a configuration of the module, with an override for the edge and with a flag.
const copiesConfig = `apiVersion: config.clusterfx.dev/v1alpha1
kind: HubConfiguration
modules:
- name: copies
  clusters: {}
  config: {resource: secrets, from: platform}
  overrides:
  - selector:
      matchLabels: {tier: edge}
    config: {resource: pods}
`

func fileWith(t *testing.T, text string) string {
	t.Helper()
	return testkit.File(t, "file", text)
}

func runCopies(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, problems bytes.Buffer
	code = Execute(t.Context(), Program{
		Args: append([]string{"hub"}, args...), Stdout: &out, Stderr: &problems, Modules: []registry.Module{copies()},
	})
	return code, out.String(), problems.String()
}

// The command rbac prints the permissions of the configuration for all remotes and no others, and takes the flags of the file.
func TestRBAC_Config(t *testing.T) {
	t.Parallel()
	var without bytes.Buffer
	if code := Execute(t.Context(), Program{
		Args: []string{"hub", "rbac", "--credentials-namespace=fleet"}, Stdout: &without, Stderr: &without,
	}); code != 0 {
		t.Fatal(without.String())
	}
	hub, remote, _ := strings.Cut(without.String(), "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: clusterfx-remote\n")
	want := hub + `---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: clusterfx-hub-modules
  namespace: platform
rules:
- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - get
- apiGroups:
  - ""
  resources:
  - pods
  verbs:
  - get
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: clusterfx-remote
` + remote + `- apiGroups:
  - ""
  resources:
  - secrets
  verbs:
  - create
- apiGroups:
  - ""
  resources:
  - pods
  verbs:
  - create
`
	file := fileWith(t, copiesConfig+"flags: {credentials-namespace: fleet, impersonate-apps: true}\n")
	code, got, problems := runCopies(t, "rbac", "--config="+file, "--impersonate-apps=false")
	if diff := cmp.Diff(want, got); code != 0 || problems != "" || diff != "" {
		t.Errorf("exit status %d, %s, -want +got:\n%s", code, problems, diff)
	}
	code, got, problems = runCopies(t, "rbac")
	if code != 0 || !strings.Contains(problems, "permissions of module copies follow from the configuration") ||
		strings.Contains(got, "pods") || !strings.Contains(got, "namespace: default\nrules:\n- apiGroups:\n  - \"\"\n  resources:\n  - configmaps") {
		t.Errorf("without a file: exit status %d, %s, %s", code, problems, got)
	}
	if code, _, problems := runCopies(t, "rbac", "--config="+fileWith(t, strings.Replace(copiesConfig, "from", "form", 1))); code != 1 ||
		!strings.Contains(problems, "form") {
		t.Errorf("with a wrong file: exit status %d, %s", code, problems)
	}
}

// hubWith installs a hub with a configuration into a cluster, and returns the path of its kubeconfig.
func hubWith(t *testing.T, cluster *fleet.Cluster, config string) (kubeconfig string) {
	t.Helper()
	kubeconfig = fileWith(t, string(cluster.Kubeconfig()))
	code, _, problems := runCopies(t, "install", "--kubeconfig="+kubeconfig, "--yes", "--wait=false", "--image=example.com/copies:v1", "--config="+fileWith(t, config))
	if code != 0 {
		t.Fatal(problems)
	}
	return kubeconfig
}

// The command install grants the hub the permissions of the configuration, also of the file that it keeps. The command
// register grants those for the labels of the Cluster by the installed file or the file of --config.
func TestConfigured_InHub(t *testing.T) {
	cluster, remote := fleettest.Cluster(t, "configured-hub"), fleettest.Cluster(t, "configured-remote")
	c := fleettest.Client(t, cluster)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "platform"}}))
	ofRemote := fileWith(t, string(remote.Kubeconfig()))
	kubeconfig := fileWith(t, string(cluster.Kubeconfig()))
	if code, _, problems := runCopies(t, "check", "--kubeconfig="+kubeconfig, "--cluster-kubeconfig="+ofRemote); code == 1 ||
		!strings.Contains(problems, "no hub is installed in namespace "+hubv1.DefaultNamespace) {
		t.Errorf("check before there is a hub: exit status %d, %s", code, problems)
	}
	kubeconfig = hubWith(t, cluster, copiesConfig)
	for range 2 {
		var role rbacv1.Role
		must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "platform", Name: roles.ModulesRole}, &role))
		if len(role.Rules) != 2 || role.Rules[0].Resources[0] != "secrets" || role.Rules[1].Resources[0] != "pods" {
			t.Errorf("the role of the installed hub is %v", role.Rules)
		}
		if code, _, problems := runCopies(t, "install", "--kubeconfig="+kubeconfig, "--yes", "--wait=false", "--image=example.com/copies:v2"); code != 0 {
			t.Fatal(problems)
		}
	}
	other := fileWith(t, strings.Replace(copiesConfig, "secrets", "services", 1))
	for want, args := range map[string][]string{
		"secrets": nil, "pods": {"-l", "tier=edge"}, "services": {"--config=" + other},
	} {
		code, out, problems := runCopies(t, append([]string{
			"register", "one", "--kubeconfig=" + kubeconfig, "--cluster-kubeconfig=" + ofRemote, "--dry-run=client", "-o", "yaml",
		}, args...)...)
		if code != 0 {
			t.Fatal(problems)
		}
		for _, resource := range []string{"secrets", "pods", "services", "configmaps"} {
			if got := strings.Contains(out, "  - "+resource+"\n"); got != (resource == want) {
				t.Errorf("register %v grants %s: %t\n%s", args, resource, got, out)
			}
		}
	}
	poor, err := cluster.MintToken(t.Context(), fleet.User{Name: "configured-poor", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	}})
	must(t, err)
	asPoor := []string{"register", "one", "--kubeconfig=" + fileWith(t, string(poor.Kubeconfig())), "--cluster-kubeconfig=" + ofRemote, "--dry-run=client"}
	code, out, problems := runCopies(t, asPoor...)
	if code != 0 || strings.Contains(out, "secrets") || !strings.Contains(problems, "may select more modules") {
		t.Errorf("without a permission for the installed file, which selects the modules: exit status %d, %s", code, problems)
	}
	code, _, problems = runCopies(t, append(asPoor, "--modules=copies")...)
	if code != 1 || !strings.Contains(problems, "name its file with --config") || !strings.Contains(problems, "denies a permission") {
		t.Errorf("without a permission for the installed file: exit status %d, %s", code, problems)
	}
}
