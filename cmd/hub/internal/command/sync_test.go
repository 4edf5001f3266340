// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/registry"
)

const syncConfig = `apiVersion: config.clusterfx.dev/v1alpha1
kind: HubConfiguration
flags:
  allow-cidr: [127.0.0.0/8]
modules:
- name: sync
  config:
    rules:
    - name: pull
      from: Hub
      kind: {apiVersion: v1, kind: ConfigMap}
      namespaces: {names: [default]}
      objects: {matchLabels: {sync: everywhere}}
      to: {names: Translated, namespace: default}
`

// syncHub returns the paths of a kubeconfig and of a configuration file of a hub with two Clusters.
func syncHub(t *testing.T) (kubeconfig, config string) {
	t.Helper()
	hub, edge := fleettest.Cluster(t, "sync-hub"), fleettest.Cluster(t, "sync-edge")
	fleettest.InstallCRDs(t, hub.Config())
	c := fleettest.Client(t, hub, hubv1.AddToScheme)
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.DefaultNamespace, Name: "edge"},
			Data:       map[string][]byte{"kubeconfig": edge.Kubeconfig()},
		},
		&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "edge", Key: "kubeconfig"},
			Modules:             []string{"sync"},
		}},
		&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: "edge", Key: "kubeconfig"},
		}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: "shared", Labels: map[string]string{"sync": "everywhere"},
		}},
	} {
		must(t, c.Create(t.Context(), obj))
	}
	dir := t.TempDir()
	kubeconfig, config = filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "hub.yaml")
	for path, text := range map[string][]byte{kubeconfig: hub.Kubeconfig(), config: []byte(syncConfig)} {
		must(t, os.WriteFile(path, text, 0o600))
	}
	return kubeconfig, config
}

// tenant is the tenant of the rule pull, which ends with a hash of the hub.
var tenant = regexp.MustCompile(`hub-pull-[0-9a-f]{8}\b`)

// The commands below sync use the rules of the configuration file, and the remotes whose Clusters select the module; prune and
// release refuse what they must not change.
func TestSync(t *testing.T) {
	t.Parallel()
	kubeconfig, config := syncHub(t)
	known := "--config=" + config
	module := registry.NewModule("sync", registry.ModuleOptions{
		Select: registry.Selector{OnRequest: true}, Config: registry.ConfigOf(rules.Defaults),
		Remote: fx.Invoke(func(registry.Remote) {}),
	})
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"ls", known}, 0, "pull   edge      Hub    ConfigMap   Enforce   1           0        1         0           0"},
		{[]string{"ls", "-o", "name", known}, 0, "rule/pull.edge\n"},
		{[]string{"ls", "push", known}, 1, "push: no such rule; there are pull"},
		{[]string{"ls"}, 1, "name the file with --config"},
		{[]string{"diff", known}, 0, "pull   edge      ConfigMap   default/shared-x-default-x-TENANT   Create"},
		{[]string{"diff", "push", known}, 1, "push: no such rule; there are pull"},
		{[]string{"translate", "pull", "shared", "--remote=edge", known}, 0, "default/shared-x-default-x-TENANT\n"},
		{[]string{"translate", "pull", "shared", known}, 1, "with --remote NAME"},
		{[]string{"translate", "pull", "shared", "--remote=edge", "--reverse", known}, 1, "read ConfigMap default/shared: the server responds with status 404 Not Found"},
		{[]string{"prune", "pull", "-y", known}, 1, "the configuration of the hub has this rule"},
		{[]string{"prune", "push", "-y"}, 1, "name the file with --config"},
		{[]string{"prune", "push", "-y", "--remote=edge", known}, 0, "rule/push pruned: 0 objects\n"},
		{[]string{"prune", "push", "--kind=Secret", known}, 1, `--kind="Secret": write it as v1/Secret`},
		{[]string{"release", "pull", "--remote=edge", known}, 1, "only the originals of a rule from the hub with namespaces.template do"},
	} {
		var out bytes.Buffer
		args := append([]string{"hub", "sync"}, append(test.args, "--kubeconfig="+kubeconfig)...)
		p := Program{Args: args, Stdout: &out, Stderr: &out, Modules: []registry.Module{module}}
		status := Execute(t.Context(), p)
		if got := tenant.ReplaceAllString(out.String(), "TENANT"); status != test.status || !strings.Contains(got, test.want) {
			t.Errorf("%s: %d, %s; want %d, %q", strings.Join(args[1:], " "), status, got, test.status, test.want)
		}
	}
}
