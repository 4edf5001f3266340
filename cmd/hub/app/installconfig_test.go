// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// installation is a namespace in which a test installs hubs.
type installation struct {
	*hub

	namespace string
}

// run installs with these flags, and does not wait.
func (i *installation) run(args ...string) (output string, err error) {
	i.t.Helper()
	own := []string{"--namespace=" + i.namespace, "--image=registry.example.com/hub:v1", "--wait=false"}
	code, stdout, stderr := i.install(append(own, args...)...)
	if code != 0 {
		err = fmt.Errorf("exit status %d", code)
	}
	return stdout + stderr, err
}

// mustRun runs install with --yes, and fails the test if it fails.
func (i *installation) mustRun(args ...string) (output string) {
	i.t.Helper()
	output, err := i.run(append(args, "--yes", "--force-conflicts")...)
	if err != nil {
		i.t.Fatalf("install %v: %v\n%s", args, err, output)
	}
	return output
}

// refused runs install with --yes, and fails the test unless install fails with these texts.
func (i *installation) refused(args []string, want ...string) {
	i.t.Helper()
	output, err := i.run(append(args, "--yes")...)
	for _, one := range want {
		if err == nil || !strings.Contains(output, one) {
			i.t.Errorf("install %v: %v, want %q in:\n%s", args, err, one, output)
		}
	}
}

func (i *installation) deployment() *appsv1.Deployment {
	i.t.Helper()
	d := &appsv1.Deployment{}
	i.must(i.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: "clusterfx-hub"}, d))
	return d
}

func (i *installation) config() *corev1.ConfigMap {
	i.t.Helper()
	c := &corev1.ConfigMap{}
	i.must(i.Get(i.t.Context(), client.ObjectKey{Namespace: i.namespace, Name: "clusterfx-hub-config"}, c))
	return c
}

func (i *installation) versions() []string {
	i.t.Helper()
	return []string{i.deployment().ResourceVersion, i.config().ResourceVersion}
}

// expectFile fails the test unless the Pods of the hub read this file, and have its hash as an annotation.
func (i *installation) expectFile(text string) {
	i.t.Helper()
	if got := i.config().Data; !cmp.Equal(got, map[string]string{"hub.yaml": text}) {
		i.t.Errorf("the ConfigMap has %q", got)
	}
	template := i.deployment().Spec.Template
	pod, hub := template.Spec, template.Spec.Containers[0]
	hash := sha256.Sum256([]byte(text))
	if got := template.Annotations["clusterfx.dev/config-hash"]; got != hex.EncodeToString(hash[:]) {
		i.t.Errorf("the hash of the Pods is %q", got)
	}
	if len(pod.Volumes) != 2 || len(hub.VolumeMounts) != 2 || pod.Volumes[1].ConfigMap == nil {
		i.t.Fatalf("the Pods mount %+v, %+v", pod.Volumes, hub.VolumeMounts)
	}
	mount := hub.VolumeMounts[1]
	if pod.Volumes[1].ConfigMap.Name != i.config().Name || mount.Name != pod.Volumes[1].Name || !mount.ReadOnly ||
		!slices.Contains(hub.Args, "--config="+mount.MountPath+"/hub.yaml") {
		i.t.Errorf("the Pods mount %+v, %+v, with the arguments %v", pod.Volumes, hub.VolumeMounts, hub.Args)
	}
}

// install --config installs a valid file, and nothing with a file that is not valid. Without --config the installed
// file stays. Only a change of the file replaces the Pods.
func TestInstall_Config(t *testing.T) {
	t.Parallel()
	i := &installation{newHubIn(t, pool.Remote), "configured"}
	folder := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		i.must(os.WriteFile(path, []byte(text), 0o600))
		return "--config=" + path
	}
	const head = "apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"
	for text, want := range map[string]string{
		head + "flags:\n  concurrency: 0\n":                        "bad.yaml: --concurrency=0: use 1 or more",
		head + "modules:\n- name: other\n":                         "bad.yaml: this hub has no module \"other\"",
		head + "flags:\n  impersonate-apps: true\n":                "bad.yaml: flags: impersonate-apps: an installed hub has \"false\"; remove it",
		head + "flags:\n  alone: true\n":                           "bad.yaml: flags: alone: an installed hub has \"false\"; remove it",
		head + "flags:\n  active-replicas: 0\n":                    "bad.yaml: flags: active-replicas: an installed hub has \"1\"; remove it",
		head + "flags:\n  health-probe-bind-address: :9\n":         "bad.yaml: flags: health-probe-bind-address: an installed hub has \":8081\"",
		head + "flags:\n  log-level: info\n" + "#\xff\n":           "bad.yaml: this is not YAML",
		head + "# " + strings.Repeat("0123456789", 110_000) + "\n": "a ConfigMap holds ",
	} {
		i.refused([]string{file("bad.yaml", text)}, want)
	}
	var wide []byte
	for _, unit := range append([]uint16{0xfeff}, utf16.Encode([]rune(head))...) {
		wide = binary.LittleEndian.AppendUint16(wide, unit)
	}
	i.refused([]string{file("bad.yaml", string(wide))}, "bad.yaml: a ConfigMap holds text in UTF-8 only")
	i.refused([]string{"--config=" + filepath.Join(folder, "missing.yaml")}, "read the configuration", "no such file")
	if err := i.Get(t.Context(), client.ObjectKey{Name: i.namespace}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refused file creates the namespace: %v", err)
	}
	if out, err := i.run(file("hub.yaml", head), "--dry-run=client"); err != nil || !strings.Contains(out, "kind: HubConfiguration") {
		t.Errorf("a dry run of the client: %v\n%s", err, out)
	}

	first := head + "flags: {log-level: debug, alone: false, credentials-namespace: configured}\n"
	if out := i.mustRun(file("hub.yaml", first)); !strings.Contains(out, "configmap/clusterfx-hub-config serverside-applied\n") {
		t.Errorf("install --config prints:\n%s", out)
	}
	i.expectFile(first)
	before := i.versions()
	i.mustRun(file("hub.yaml", first))
	if out := i.mustRun(); !strings.Contains(out, "the hub keeps the configuration in ConfigMap configured/clusterfx-hub-config") {
		t.Errorf("without a file, install prints:\n%s", out)
	}
	testkit.Equal(t, i.versions(), before, "the same file, or no file, changes the installation")
	generation := i.deployment().Generation
	second := head + "flags: {log-level: error}\n"
	i.mustRun(file("hub.yaml", second))
	i.expectFile(second)
	if i.deployment().Generation == generation {
		t.Error("another file does not replace the Pods")
	}

	kept := i.config()
	kept.Data["hub.yaml"] = head + "modules:\n- name: gone\n"
	i.must(i.Update(t.Context(), kept, client.FieldOwner("by-hand")))
	before = i.versions()
	i.refused(nil, "ConfigMap configured/clusterfx-hub-config: this hub has no module \"gone\"", "name another file with --config")
	testkit.Equal(t, i.versions(), before, "a refused configuration changes the installation")
	i.refused([]string{file("hub.yaml", second)}, "apply ConfigMap clusterfx-hub-config", "--force-conflicts")
	i.mustRun(file("hub.yaml", second))
	i.expectFile(second)
}
