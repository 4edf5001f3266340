// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
)

// syncRules is a file as a user writes it: other objects are ignored.
const syncRules = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: clusterfx.dev/v1alpha1
kind: SyncRule
metadata: {name: pull}
spec:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  clusters: {matchLabels: {tier: edge}}
  namespaces: {names: [default]}
  objects: {selector: {matchLabels: {sync: everywhere}}}
  to: {naming: Translated, namespace: default}
---
apiVersion: v1
kind: List
items:
- apiVersion: clusterfx.dev/v1alpha1
  kind: SyncRule
  metadata: {name: gateways}
  spec:
    from: Remote
    kind: {apiVersion: example.com/v1, kind: Gateway, resource: gateways}
    namespaces: {names: [infra]}
    to: {naming: Translated, namespace: from-remotes}
`

// syncHub returns the paths of a kubeconfig and of a file with rules, of a hub with two Clusters and the rule pull.
func syncHub(t *testing.T) (kubeconfig, file string) {
	t.Helper()
	hub, edge := fleettest.Cluster(t, "sync-hub"), fleettest.Cluster(t, "sync-edge")
	fleettest.InstallCRDs(t, hub.Config())
	c := fleettest.Client(t, hub, hubv1.AddToScheme)
	cluster := func(name string, labels map[string]string) *hubv1.Cluster {
		return &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "edge", Key: "kubeconfig"},
		}}
	}
	everywhere := map[string]string{"sync": "everywhere"}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: "edge"},
			Data:       map[string][]byte{"kubeconfig": edge.Kubeconfig()},
		},
		cluster("edge", map[string]string{"tier": "edge"}), cluster("other", nil),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "shared", Labels: everywhere}},
		&hubv1.SyncRule{ObjectMeta: metav1.ObjectMeta{Name: "applied"}, Spec: hubv1.SyncRuleSpec{
			From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap"},
			Namespaces: hubv1.SyncNamespaces{Names: []string{metav1.NamespaceDefault}},
			Objects:    hubv1.SyncObjects{Names: []string{"shared"}}, To: hubv1.SyncTarget{Naming: hubv1.SyncTranslated, Namespace: metav1.NamespaceDefault},
		}},
	} {
		must(t, c.Create(t.Context(), obj))
	}
	dir := t.TempDir()
	kubeconfig, file = filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "rules.yaml")
	for path, text := range map[string][]byte{kubeconfig: hub.Kubeconfig(), file: []byte(syncRules)} {
		must(t, os.WriteFile(path, text, 0o600))
	}
	return kubeconfig, file
}

// tenant is the tenant of a rule, which ends with a hash of the hub.
var tenant = regexp.MustCompile(`hub-[a-z]+-[0-9a-f]{8}\b`)

// The command diff shows a rule of the hub, or of a file before it is applied, in the remotes that the rule selects. The roles for the
// rules of a file have the resource that the rule or the API server names, never a guessed one.
func TestSync(t *testing.T) {
	t.Parallel()
	kubeconfig, file := syncHub(t)
	for _, test := range []struct {
		args   string
		status int
		want   string
	}{
		{"sync diff pull --rules=" + file, 0, "edge      default/shared-x-default-x-TENANT   Create"},
		{"sync diff pull --rules=" + file + " --cluster=other", 1, "rule pull selects no Cluster other"},
		{"sync diff push --rules=" + file, 1, "has no SyncRule push"},
		{"sync diff applied -o yaml", 0, "name: other/default/shared-x-default-x-TENANT\n"},
		{"sync diff pull", 1, "read the SyncRule pull"},
		{"rbac --rules=" + file, 1, "say for which side"},
		{"rbac --in=remote --rules=" + file, 0, `  labels:
    clusterfx.dev/aggregate-to-sync: "true"
  name: clusterfx-sync-pull
rules:
- apiGroups:
  - ""
  resources:
  - configmaps
`},
		{"rbac --in=remote --rules=" + file, 0, "  resources:\n  - gateways\n"},
		{"rbac --in=hub --rules=" + file, 0, `kind: RoleBinding
metadata:
  name: clusterfx-sync-gateways
  namespace: from-remotes
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: clusterfx-sync-gateways
subjects:
- kind: ServiceAccount
  name: clusterfx-hub
  namespace: clusterfx-system
`},
	} {
		var out bytes.Buffer
		args := append([]string{"hub"}, append(strings.Fields(test.args), "--kubeconfig="+kubeconfig)...)
		if strings.HasPrefix(test.args, "sync") {
			args = append(args, "--allow-cidr=127.0.0.0/8")
		}
		status := Execute(t.Context(), Program{Args: args, Stdout: &out, Stderr: &out, Modules: modules.All()})
		if got := tenant.ReplaceAllString(out.String(), "TENANT"); status != test.status || !strings.Contains(got, test.want) {
			t.Errorf("%s: %d, %s; want %d, %q", test.args, status, got, test.status, test.want)
		}
	}
}
