// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const configText = "apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"

// onPage returns the objects that a kustomization of docs/operating.md builds, in a folder with a configuration file.
func onPage(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	page := testkit.Read(t, "../../../../docs/operating.md")
	_, shown, found := strings.Cut(page, "<!-- "+name+" -->\n```yaml\n")
	if !found {
		t.Fatalf("the page has no %s", name)
	}
	shown, _, _ = strings.Cut(shown, "```")
	dir := t.TempDir()
	root, err := filepath.Abs("../../../..")
	must(t, err)
	relative, err := filepath.Rel(dir, root)
	must(t, err)
	text := strings.ReplaceAll(shown, "- clusterfx/", "- "+relative+"/")
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "hub.yaml"), []byte(configText), 0o600))
	return kustomizeFolder(t, dir)
}

// The program installs a configuration file with the same objects as kustomize, except for the hash: kustomize puts it
// into the name of the ConfigMap, and the program into an annotation of the Pods.
func TestObjects_Config(t *testing.T) {
	t.Parallel()
	got, want := objects(t, install.Options{Config: configText}), onPage(t, "kustomization.yaml")
	var name string
	for _, object := range want {
		if object.GetKind() == "ConfigMap" {
			name = object.GetName()
			object.SetName(install.ConfigMapName)
			object.SetLabels(find(t, got, id(object)).GetLabels())
		}
	}
	hub := find(t, got, "Deployment/clusterfx-system/clusterfx-hub")
	if hash, _, err := unstructured.NestedString(hub.Object, "spec", "template", "metadata", "annotations", "clusterfx.dev/config-hash"); err != nil || len(hash) != 64 {
		t.Errorf("the hash is %q (%v)", hash, err)
	}
	unstructured.RemoveNestedField(hub.Object, "spec", "template", "metadata", "annotations", "clusterfx.dev/config-hash")
	if diff := gocmp.Diff(strings.ReplaceAll(text(t, want), name, install.ConfigMapName), text(t, got)); name == "" || diff != "" {
		t.Errorf("kustomize has -, the program +:\n%s", diff)
	}
	if file := into[corev1.ConfigMap](t, find(t, got, "ConfigMap/clusterfx-system/"+install.ConfigMapName)); file.Data["hub.yaml"] != configText {
		t.Errorf("the ConfigMap has %q", file.Data)
	}
}

// The ConfigMap precedes the Deployment that mounts it, and the Namespace precedes both.
func TestObjects_ConfigFirst(t *testing.T) {
	t.Parallel()
	order := map[string]int{}
	for i, object := range objects(t, install.Options{Config: configText}) {
		order[object.GetKind()] = i
	}
	if order["Namespace"] > order["ConfigMap"] || order["ConfigMap"] > order["Deployment"] {
		t.Errorf("the order is %v", order)
	}
}

// Find returns the configuration only if the Pods of the hub mount the ConfigMap and an argument names the file.
// Otherwise the ConfigMap is unused.
func TestFind_Config(t *testing.T) {
	t.Parallel()
	c, _ := installed(t)
	const namespace = "find-config"
	all := objects(t, install.Options{Namespace: namespace, Config: configText})
	expect := func(name string, want install.Installed) {
		t.Helper()
		found, err := install.Find(t.Context(), c, namespace)
		if err != nil || found.Config != want.Config || found.UnusedConfig != want.UnusedConfig {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	expect("nothing is there", install.Installed{})
	before := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
	must(t, install.Apply(t.Context(), c, all[:before+1], install.ApplyOptions{}))
	expect("no hub", install.Installed{UnusedConfig: true})
	must(t, install.Apply(t.Context(), c, all, install.ApplyOptions{}))
	expect("it is mounted", install.Installed{Config: configText})
	for name, change := range map[string]func(*corev1.PodSpec){
		"another ConfigMap is mounted": func(pod *corev1.PodSpec) { pod.Volumes[len(pod.Volumes)-1].ConfigMap.Name = "other" },
		"no argument":                  func(pod *corev1.PodSpec) { pod.Containers[0].Args = nil },
	} {
		hub := deployment(t, all)
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(&hub), &hub))
		was := hub.DeepCopy()
		change(&hub.Spec.Template.Spec)
		must(t, c.Patch(t.Context(), &hub, client.MergeFrom(was)))
		expect(name, install.Installed{UnusedConfig: true})
		must(t, install.Apply(t.Context(), c, all, install.ApplyOptions{ForceConflicts: true}))
	}
}
