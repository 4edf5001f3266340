// SPDX-License-Identifier: Apache-2.0

package test_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// namespace is the namespace that config/default installs into.
const namespace = "clusterfx-system"

// render returns the objects that the chart renders for values.
func render(t *testing.T, values map[string]any) ([]*unstructured.Unstructured, error) {
	t.Helper()
	chart, err := loader.Load("../chart")
	if err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: "clusterfx", Namespace: namespace, IsInstall: true, Revision: 1}
	all, err := util.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			objects = append(objects, parse(t, text)...)
		}
	}
	return objects, nil
}

func parse(t *testing.T, text string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}

// kustomize builds a folder of config with the kustomize in kubectl, either the kubectl from make controlplane or the
// kubectl on the PATH.
func kustomize(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built, err := filepath.Glob(filepath.Join(cache, "clusterfx", "controlplane", "*", "kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	kubectl := "kubectl"
	if len(built) > 0 {
		kubectl = built[len(built)-1]
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join("..", folder)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "kustomize", folder)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal(`kubectl is not installed: run "make controlplane"`)
	}
	if err != nil {
		t.Fatalf("kustomize %s: %v", folder, err)
	}
	return parse(t, string(out))
}

// text returns objects as text, sorted by kind, namespace and name.
func text(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	id := func(o *unstructured.Unstructured) string {
		return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(id(a), id(b)) })
	var out bytes.Buffer
	for _, object := range objects {
		one, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(one)
	}
	return out.String()
}

// withoutHelms removes the labels and annotations that Helm adds.
func withoutHelms(objects []*unstructured.Unstructured) {
	helms := []string{
		"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart",
	}
	for _, object := range objects {
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		for _, label := range helms {
			delete(labels, label)
		}
		delete(annotations, "helm.sh/resource-policy")
		if len(annotations) == 0 {
			annotations = nil
		}
		object.SetLabels(labels)
		object.SetAnnotations(annotations)
	}
}

// The chart installs the same objects as kustomize, except for the namespace, which Helm's user creates.
func TestChart_IsKustomizes(t *testing.T) {
	t.Parallel()
	got, err := render(t, map[string]any{
		"image":      map[string]any{"tag": "latest"},
		"prometheus": map[string]any{"create": true},
	})
	if err != nil {
		t.Fatal(err)
	}
	withoutHelms(got)
	want := slices.Concat(kustomize(t, "default"), kustomize(t, "prometheus"))
	want = slices.DeleteFunc(want, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" })
	if diff := gocmp.Diff(text(t, want), text(t, got)); diff != "" {
		t.Errorf("objects of kustomize (-) and of the chart (+) differ:\n%s", diff)
	}
}

// With impersonateApps the chart also installs the objects of the folder impersonation, and sets the flags.
func TestChart_Impersonation(t *testing.T) {
	t.Parallel()
	values := map[string]any{"image": map[string]any{"tag": "latest"}, "impersonateApps": true}
	got, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	withoutHelms(got)
	args := "--impersonate-apps\n        - --apps-namespace=" + namespace + "-apps"
	if all := text(t, got); !strings.Contains(all, args) {
		t.Errorf("Deployment lacks the flags of impersonation:\n%s", all)
	}
	base := kustomize(t, "default")
	got = slices.DeleteFunc(got, func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(base, func(b *unstructured.Unstructured) bool {
			return b.GetKind() == o.GetKind() && b.GetNamespace() == o.GetNamespace() && b.GetName() == o.GetName()
		})
	})
	if diff := gocmp.Diff(text(t, kustomize(t, "impersonation")), text(t, got)); diff != "" {
		t.Errorf("objects of kustomize (-) and of the chart (+) differ:\n%s", diff)
	}
	values["appsNamespace"], values["extraRoles"] = "identities", []any{map[string]any{"namespace": "shop", "rules": []any{}}}
	if got, err = render(t, values); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"name: system:serviceaccounts:identities\n", "--apps-namespace=identities\n", "name: clusterfx-apps\n  namespace: shop\n",
	} {
		if !strings.Contains(text(t, got), want) {
			t.Errorf("rendered chart lacks %q", want)
		}
	}
}

// Every value of the chart has an effect, and an unknown value is refused.
func TestChart_Values(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"replicas":       {map[string]any{"replicas": 3}, "replicas: 3"},
		"default":        {map[string]any{}, "replicas: 2"},
		"all active":     {map[string]any{"activeReplicas": 0}, "- --active-replicas=0"},
		"shards":         {map[string]any{"shards": 64}, "- --shards=64"},
		"repository":     {map[string]any{"image": map[string]any{"repository": "example.com/hub"}}, "image: example.com/hub:v0.1.0"},
		"tag":            {map[string]any{"image": map[string]any{"tag": "v9"}}, "image: ghcr.io/clusterfx/hub:v9"},
		"pull policy":    {map[string]any{"image": map[string]any{"pullPolicy": "Always"}}, "imagePullPolicy: Always"},
		"pull secrets":   {map[string]any{"imagePullSecrets": []any{map[string]any{"name": "own"}}}, "imagePullSecrets:\n      - name: own"},
		"args":           {map[string]any{"args": []any{"--log-level=debug"}}, "- --debug-bind-address=127.0.0.1:6060\n        - --log-level=debug"},
		"config":         {map[string]any{"config": "kind: X\n\n# a: b\n"}, "data:\n  hub.yaml: |\n    kind: X\n\n    # a: b\nkind: ConfigMap"},
		"config's flag":  {map[string]any{"config": "kind: X\n"}, "- --debug-bind-address=127.0.0.1:6060\n        - --config=/etc/clusterfx/hub.yaml"},
		"config's hash":  {map[string]any{"config": "kind: X\n"}, fmt.Sprintf("clusterfx.dev/config-hash: %x\n", sha256.Sum256([]byte("kind: X\n")))},
		"config's mount": {map[string]any{"config": "kind: X\n"}, "        - mountPath: /etc/clusterfx\n          name: config\n          readOnly: true\n"},
		"config's map":   {map[string]any{"config": "kind: X\n"}, "      - configMap:\n          name: clusterfx-hub-config\n        name: config\n"},
		"rules":          {map[string]any{"extraRules": []any{map[string]any{"apiGroups": []any{"own"}, "resources": []any{"things"}, "verbs": []any{"get"}}}}, "- things"},
		"roles":          {map[string]any{"extraRoles": []any{map[string]any{"namespace": "shop", "rules": []any{map[string]any{"resources": []any{"carts"}, "verbs": []any{"get"}}}}}}, "  name: clusterfx-hub-modules\n  namespace: shop\nrules:\n- resources:\n  - carts"},
		"resources":      {map[string]any{"resources": map[string]any{"requests": map[string]any{"cpu": "7"}}}, "cpu: \"7\""},
		"memory":         {map[string]any{"goMemLimit": "7GiB"}, "value: 7GiB"},
		"node selector":  {map[string]any{"nodeSelector": map[string]any{"own": "node"}}, "own: node"},
		"tolerations":    {map[string]any{"tolerations": []any{map[string]any{"key": "own"}}}, "- key: own"},
		"affinity":       {map[string]any{"affinity": map[string]any{"nodeAffinity": map[string]any{}}}, "nodeAffinity: {}"},
		"priority class": {map[string]any{"priorityClassName": "high"}, "priorityClassName: high"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := render(t, c.values)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, objects); !strings.Contains(got, c.want) {
				t.Errorf("rendered chart lacks %q", c.want)
			}
		})
	}
	for kind, value := range map[string]string{"CustomResourceDefinition": "crd", "NetworkPolicy": "networkPolicy"} {
		objects, err := render(t, map[string]any{value: map[string]any{"create": false}})
		if err != nil || strings.Contains(text(t, objects), "\nkind: "+kind+"\n") {
			t.Errorf("%s.create=false still renders a %s (%v)", value, kind, err)
		}
	}
	extra := []any{map[string]any{"apiGroups": []any{"own"}, "resources": []any{"things"}, "verbs": []any{"get"}}}
	objects, err := render(t, map[string]any{"impersonateApps": true, "extraRules": extra})
	if err != nil || strings.Count(text(t, objects), "- things") != 1 {
		t.Errorf("extra rules are not in the hub's role alone (%v)", err)
	}
	for value, of := range map[string]any{"replica": 3, "replicas": 0, "activeReplicas": -1, "shards": 0} {
		if _, err := render(t, map[string]any{value: of}); err == nil {
			t.Errorf("%s=%v is accepted", value, of)
		}
	}
}

// A packaged chart has no adjacent folders, so it has copies of their files.
func TestChart_Files(t *testing.T) {
	t.Parallel()
	for copied, original := range map[string]string{
		"clusterfx.dev_clusters.yaml":  "../crd/clusterfx.dev_clusters.yaml",
		"clusterfx.dev_syncrules.yaml": "../crd/clusterfx.dev_syncrules.yaml",
		"policy.yaml":                  "../admission/policy.yaml",
		"rules.yaml":                   "../prometheus/rules.yaml",
		"service_monitor.yaml":         "../prometheus/service_monitor.yaml",
	} {
		got, err := os.ReadFile(filepath.Join("../chart/files", copied))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("chart/files/%s differs from %s: run make generate", copied, original)
		}
	}
}
