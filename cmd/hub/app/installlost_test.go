// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const emptyConfig = "apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"

func (i *installation) addArguments(arguments ...string) {
	i.t.Helper()
	d := i.deployment()
	hub := &d.Spec.Template.Spec.Containers[0]
	hub.Args = append(hub.Args, arguments...)
	i.must(i.Update(i.t.Context(), d, client.FieldOwner("by-hand")))
}

// file writes a configuration file and returns the flag that names it.
func (i *installation) file(text string) string {
	i.t.Helper()
	path := filepath.Join(i.t.TempDir(), "hub.yaml")
	i.must(os.WriteFile(path, []byte(text), 0o600))
	return "--config=" + path
}

// install names the arguments that were added to the Deployment by hand before it removes them.
func TestInstall_LostArguments(t *testing.T) {
	t.Parallel()
	i := &installation{newHubIn(t, pool.Remote), "by-hand"}
	const argument, loses = "--allow-cidr=10.0.0.0/8", "Deployment by-hand/clusterfx-hub loses these arguments: --allow-cidr=10.0.0.0/8; to keep one, "
	if out := i.mustRun(); strings.Contains(out, "these arguments") {
		t.Errorf("a first installation prints:\n%s", out)
	}
	i.addArguments(argument)
	has := func() bool { return slices.Contains(i.deployment().Spec.Template.Spec.Containers[0].Args, argument) }
	i.refused(nil, "has these arguments, which this installation does not have: "+argument, "--force-conflicts")
	if out, err := i.run("--force-conflicts"); err == nil || !strings.Contains(out, loses) || !strings.Contains(out, "confirm it with --yes") || !has() {
		t.Errorf("without --yes: %v\n%s", err, out)
	}
	if out := i.mustRun(); !strings.Contains(out, loses) || has() {
		t.Errorf("the Deployment has the argument: %t\n%s", has(), out)
	}
	if out := i.mustRun(); strings.Contains(out, "these arguments") {
		t.Errorf("after the removal, install prints:\n%s", out)
	}
}

// Arguments of the installed hub that an installation has no flags for are lost, too.
func TestInstall_LostFlags(t *testing.T) {
	t.Parallel()
	i := &installation{newHubIn(t, pool.Remote), "advice"}
	i.mustRun("--impersonate-apps", "--active-replicas=0", "--shards=64", i.file(emptyConfig))
	generation := i.deployment().Generation
	i.mustRun("--impersonate-apps", "--active-replicas=0", "--shards=64")
	if now := i.deployment().Generation; now != generation {
		t.Errorf("the same flags change the Deployment: %d, then %d", generation, now)
	}
	i.addArguments("--debug-bind-address=0", "--allow-cidr=10.0.0.0/8", "--config=/mine.yaml")
	const loses = "Deployment advice/clusterfx-hub loses these arguments: --active-replicas=0 --shards=64 --impersonate-apps --apps-namespace=advice-apps " +
		"--debug-bind-address=0 --allow-cidr=10.0.0.0/8 --config=/mine.yaml; to keep one, "
	if out := i.mustRun("--dry-run=server"); !strings.Contains(out, loses) {
		t.Errorf("no %q in:\n%s", loses, out)
	}
}

// An installation that conflicts with the Deployment does not change the configuration.
func TestInstall_RefusedChangesNothing(t *testing.T) {
	t.Parallel()
	i := &installation{newHubIn(t, pool.Remote), "refused"}
	i.mustRun(i.file(emptyConfig))
	i.addArguments("--allow-cidr=10.0.0.0/8")
	before := i.versions()
	i.refused([]string{i.file(emptyConfig + "flags: {log-level: error}\n")}, "apply Deployment clusterfx-hub", "--force-conflicts")
	testkit.Equal(t, i.versions(), before, "the refused installation changes objects")
}

// install ignores a ConfigMap with the name of the configuration that the hub does not read, and warns about it.
func TestInstall_UnusedConfig(t *testing.T) {
	t.Parallel()
	i := &installation{newHubIn(t, pool.Remote), "planted"}
	meta := metav1.ObjectMeta{Namespace: i.namespace, Name: "clusterfx-hub-config"}
	i.must(i.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}}))
	i.must(i.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{
		"hub.yaml": emptyConfig + "flags: {insecure-kubeconfig-tls: true}\n",
	}}))
	const warning = "ConfigMap planted/clusterfx-hub-config is not the configuration of the installed hub and is ignored"
	for range 2 { // without a hub, and with a hub
		if out := i.mustRun(); !strings.Contains(out, warning) {
			t.Errorf("install prints:\n%s", out)
		}
		if pod := i.deployment().Spec.Template.Spec; len(pod.Volumes) != 1 || slices.Contains(pod.Containers[0].Args, "--config=/etc/clusterfx/hub.yaml") {
			t.Errorf("the Pods are %+v", pod)
		}
	}
	i.mustRun(i.file(emptyConfig))
	i.expectFile(emptyConfig)
	if out := i.mustRun(); strings.Contains(out, warning) {
		t.Errorf("with a configuration, install prints:\n%s", out)
	}
}
