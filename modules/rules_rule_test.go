// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

func theRule(t *testing.T, fields ...string) rules.Rule {
	t.Helper()
	r, err := compile(t, one(fields...))
	testkit.Must(t, err)
	return r
}

func configMap(namespace, name string, data map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID("1")
	if data != nil {
		u.Object["data"] = data
	}
	return u
}

// The tenants of rules and clusters never collide, and are labels.
func TestRule_Tenant(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	hubs := []string{"", "11111111-0000-4000-8000-000000000000", "11111111-0000-4000-8000-000000000001"}
	add := func(of string, id syncer.Identity) {
		t.Helper()
		id, err := id.WithDefaults()
		if err != nil || seen[id.Tenant] {
			t.Errorf("%s: %q %v", of, id.Tenant, err)
		}
		seen[id.Tenant] = true
	}
	for _, hub := range hubs {
		for _, name := range []string{"c", "b-c", "b-c-d", strings.Repeat("r", 32)} {
			for _, cluster := range []string{"a", "a-b", "a-b-c", strings.Repeat("a", 63), strings.Repeat("a", 62) + "b"} {
				add(name+" of "+cluster, theRule(t, "from: Remote", "name: "+name).Identity(rules.Place{HubID: hub, Cluster: cluster}))
			}
			add(name+" of the hub", theRule(t, "name: "+name).Identity(rules.Place{HubID: hub, Cluster: "a"}))
		}
	}
	one := rules.Place{HubID: hubs[1], Cluster: "a"}
	if got := theRule(t).Tenant(one); !strings.HasPrefix(got, "hub-a-") || got != theRule(t).Tenant(rules.Place{HubID: hubs[1], Cluster: "b"}) {
		t.Errorf("got %s", got)
	}
	for _, name := range []string{"orders", "orders-12345678"} {
		if got, ok := rules.RuleOfFinalizer(theRule(t, "name: "+name).Finalizer(one)); got != name || !ok {
			t.Errorf("got %q", got)
		}
	}
	for _, other := range []string{"sync.clusterfx.dev/hub-orders", "sync.clusterfx.dev/hub--12345678", "sync.clusterfx.dev/hub-", "example.com/hub-a-12345678"} {
		if got, ok := rules.RuleOfFinalizer(other); ok {
			t.Errorf("%s is the finalizer of rule %q", other, got)
		}
	}
}

// A template leads from a cluster to its namespace and back, and to no namespace that is protected.
func TestRule_Template(t *testing.T) {
	t.Parallel()
	r := theRule(t, `namespaces: {template: "{{cluster}}-system"}`)
	if got, ok := r.ClusterOf("a-system"); got != "a" || !ok {
		t.Errorf("got %q", got)
	}
	if got, ok := r.ClusterOf("kube-systems"); ok {
		t.Errorf("got %q", got)
	}
	for cluster, bad := range map[string]bool{"a": false, "clusterfx": true, strings.Repeat("a", 63): true} {
		if err := r.CheckNamespaces(cluster); errors.Is(err, rules.ErrNamespace) != bad {
			t.Errorf("%s: %v", cluster, err)
		}
	}
	target := theRule(t, "from: Remote", `to: {naming: Mirror, namespace: "{{cluster}}-system"}`)
	testkit.ErrorIs(t, target.CheckNamespaces("clusterfx"), rules.ErrNamespace, "the namespace of the credentials is a target")
}

// Labels and annotations of a remote that controllers of Kubernetes trust are not copied into the hub, but those of the hub into a
// remote, and nothing that belongs to one API server.
func TestRule_Translator(t *testing.T) {
	t.Parallel()
	for from, own := range map[hubv1.SyncSource]map[string]string{
		hubv1.SyncFromHub: {
			"kubernetes.io/x": "4", "node.k8s.io/y": "5", "k8s.io/z": "6", "sync.clusterfx.dev/managed-by": "hub-a-e3b0c442",
		},
		hubv1.SyncFromRemote: {"sync.clusterfx.dev/managed-by": "a-9c907ad83e0ab4103bf8"},
	} {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			expectTranslated(t, theRule(t, "from: "+string(from), "to: {naming: Translated, namespace: target}"), own)
		})
	}
}

// expectTranslated checks the copy of a rule, whose labels are the common ones and its own.
func expectTranslated(t *testing.T, r rules.Rule, own map[string]string) {
	t.Helper()
	up := configMap("source", "x", nil)
	up.SetLabels(map[string]string{
		"app": "1", "example.com/app": "2", "app.kubernetes.io/name": "3", "kubernetes.io/x": "4", "node.k8s.io/y": "5", "k8s.io/z": "6",
		"clusterfx.dev/a": "7", "deep.clusterfx.dev/b": "8", "notclusterfx.dev/c": "9", "sync.clusterfx.dev/managed-by": "somebody",
	})
	up.SetAnnotations(map[string]string{"note": "1", "rbac.authorization.kubernetes.io/autoupdate": "true"})
	testkit.Must(t, unstructured.SetNestedSlice(up.Object, []any{map[string]any{"uid": "2"}}, "metadata", "ownerReferences"))
	up.SetFinalizers([]string{"example.com/f"})
	translator := r.Translator(rules.Place{Cluster: "a"})
	to := translator.ToDownstream(types.NamespacedName{Namespace: "source", Name: "x"})[0]
	down := translator.Metadata(up, to)
	labels := down.GetLabels()
	delete(labels, "sync.clusterfx.dev/namespace")
	want := map[string]string{"app": "1", "example.com/app": "2", "app.kubernetes.io/name": "3", "notclusterfx.dev/c": "9"}
	maps.Copy(want, own)
	testkit.Equal(t, labels, want)
	notes := down.GetAnnotations()
	_, isTrusted := notes["rbac.authorization.kubernetes.io/autoupdate"]
	if notes["note"] != "1" || isTrusted != (r.From == hubv1.SyncFromHub) {
		t.Errorf("got %v", notes)
	}
	if len(down.GetOwnerReferences())+len(down.GetFinalizers()) > 0 || to.Namespace != "target" {
		t.Errorf("got %v in %s", down.Object["metadata"], to.Namespace)
	}
	if up, ok := translator.ToUpstream(down); !ok || up.Name != "x" {
		t.Errorf("the copy is not recognized: %v", up)
	}
	if !translate.IsCopy(down) || r.Selector("a", nil).Selects(down) {
		t.Error("a copy would be copied again")
	}
	down.SetName("y")
	if translate.IsCopy(down) {
		t.Error("an object with the marks of another one counts as a copy")
	}
}

// The selector follows the names, the template and the labels of namespaces, and leaves out the credentials.
func TestSelector(t *testing.T) {
	t.Parallel()
	labelsOf := func(namespace string) (map[string]string, bool) {
		return map[string]string{"team": namespace}, namespace != "gone"
	}
	for _, c := range []struct {
		fields []string
		yes    []string
		no     []string
	}{
		{nil, []string{"source"}, []string{"other"}},
		{[]string{`namespaces: {template: "tenant-{{cluster}}"}`}, []string{"tenant-a"}, []string{"tenant-b", "tenant"}},
		{[]string{"namespaces: {selector: {}}"}, []string{"source"}, []string{"gone", "clusterfx-system"}},
		{[]string{"namespaces: {selector: {matchLabels: {team: b}}}"}, []string{"b"}, []string{"a", "gone"}},
		{[]string{"objects: {selector: {matchLabels: {x: z}}}"}, nil, []string{"source"}},
	} {
		s := theRule(t, c.fields...).Selector("a", labelsOf)
		for _, namespace := range c.yes {
			if !s.Selects(configMap(namespace, "x", nil)) {
				t.Errorf("%v: %s is not selected", c.fields, namespace)
			}
			copied := configMap(namespace, "x", nil)
			copied.SetLabels(map[string]string{"sync.clusterfx.dev/managed-by": "hub-other-12345678"})
			copied.SetAnnotations(map[string]string{
				"sync.clusterfx.dev/object-name": "y", "sync.clusterfx.dev/object-host-name": "x", "sync.clusterfx.dev/object-host-namespace": namespace,
			})
			if s.Selects(copied) {
				t.Errorf("%v: the copy of another rule in %s is selected", c.fields, namespace)
			}
		}
		for _, namespace := range c.no {
			if s.Selects(configMap(namespace, "x", nil)) {
				t.Errorf("%v: %s is selected", c.fields, namespace)
			}
		}
	}
}

// Patches apply in their order, to the Clusters that they are meant for.
func TestPatcher(t *testing.T) {
	t.Parallel()
	r := theRule(t, `patches: [
	  {jsonPatch: [{op: add, path: /data/a, value: "1"}, {op: copy, from: /metadata/name, path: /data/name}]},
	  {when: {matchLabels: {tier: edge}}, jsonPatch: [{op: replace, path: /data/a, value: edge}]},
	  {path: /data/b, cel: "cluster.name + '-' + object.data.a + '-' + string(size(cluster.labels))"},
	  {path: /new/n, cel: "{'i': 3, 'd': 1.5, 'l': [true, null]}"},
	  {path: /metadata/labels/example.com~1x, cel: "cluster.labels[?'tier'].orValue('none')"}]`)
	for _, tier := range []string{"edge", "core"} {
		p, err := r.Patcher(rules.Cluster{Name: "c1", Labels: map[string]string{"tier": tier}})
		testkit.Must(t, err)
		obj := configMap("n", "x", map[string]any{"a": "0"})
		testkit.Must(t, p.Apply(t.Context(), obj))
		a := map[string]string{"edge": "edge", "core": "1"}[tier]
		want := map[string]any{"a": a, "name": "x", "b": "c1-" + a + "-1"}
		testkit.Equal[any](t, obj.Object["data"], want)
		n := map[string]any{"i": int64(3), "d": 1.5, "l": []any{true, nil}}
		testkit.Equal[any](t, obj.Object["new"], map[string]any{"n": n})
		testkit.Equal(t, obj.GetLabels()["example.com/x"], tier)
	}
}

// The error of a patch that does not fit repeats nothing of the object, and a patch ends in bounded time.
func TestPatcher_Errors(t *testing.T) {
	t.Parallel()
	for _, patch := range []string{
		`{jsonPatch: [{op: test, path: /data/a, value: other}]}`, `{jsonPatch: [{op: remove, path: /data/b}]}`,
		`{path: /data/b, cel: "int(object.data.a)"}`, `{path: /data/a/b, cel: "1"}`, `{path: /data/b, cel: "object.data.missing"}`,
		`{path: /data/b, cel: "[1,2,3,4,5,6,7,8,9,0].map(a, [1,2,3,4,5,6,7,8,9,0].map(b, [1,2,3,4,5,6,7,8,9,0].map(c, [1,2,3,4,5,6,7,8,9,0].map(d, [1,2,3,4,5,6,7,8,9,0].map(e, [1,2,3,4,5,6,7,8,9,0].map(f, f))))))"}`,
	} {
		p, err := theRule(t, "patches: ["+patch+"]").Patcher(rules.Cluster{Name: "c1"})
		testkit.Must(t, err)
		err = p.Apply(t.Context(), configMap("n", "x", map[string]any{"a": "secret"}))
		if !errors.Is(err, rules.ErrPatch) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// Metadata and status make no difference to whether an object is adopted.
func TestIsEqual(t *testing.T) {
	t.Parallel()
	a, b := configMap("n", "x", map[string]any{"a": "1"}), configMap("m", "y", map[string]any{"a": "1"})
	b.Object["status"] = map[string]any{"s": "1"}
	if !rules.IsEqual(a, b) {
		t.Error("equal contents differ")
	}
	b.Object["data"] = map[string]any{"a": "1", "b": "2"}
	if rules.IsEqual(a, b) {
		t.Error("different contents are equal")
	}
}

// An object is adopted if it has the content of the copy with its patches, unless it has none or is the copy of another rule.
func TestRule_Adopts(t *testing.T) {
	t.Parallel()
	r := theRule(t, "adopt: IfEqual", `patches: [{jsonPatch: [{op: add, path: /data/region, value: eu}]}]`)
	p, err := r.Patcher(rules.Cluster{Name: "a"})
	testkit.Must(t, err)
	original := configMap("default", "a", map[string]any{"k": "1"})
	patched := map[string]any{"k": "1", "region": "eu"}
	marked := configMap("default", "a", patched)
	marked.SetLabels(map[string]string{"sync.clusterfx.dev/managed-by": "hub-other-12345678"})
	marked.SetAnnotations(map[string]string{
		"sync.clusterfx.dev/object-name": "a", "sync.clusterfx.dev/object-host-name": "a", "sync.clusterfx.dev/object-host-namespace": "default",
	})
	for name, c := range map[string]struct {
		rule   rules.Rule
		copied *unstructured.Unstructured
		found  *unstructured.Unstructured
		want   bool
	}{
		"equal with the patches":   {r, original, configMap("default", "a", patched), true},
		"equal without":            {r, original, configMap("default", "a", map[string]any{"k": "1"}), false},
		"the copy of another rule": {r, original, marked, false},
		"never":                    {theRule(t), original, configMap("default", "a", map[string]any{"k": "1"}), false},
		"an object of the hub":     {theRule(t, "from: Remote", "adopt: IfEqual"), original, configMap("default", "a", map[string]any{"k": "1"}), false},
		"without content":          {theRule(t, "adopt: IfEqual"), configMap("default", "a", nil), configMap("default", "a", nil), false},
	} {
		q := p
		if len(c.rule.Patches) == 0 {
			if q, err = c.rule.Patcher(rules.Cluster{Name: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Equal(t, c.rule.Adopts(t.Context(), q, c.copied, c.found), c.want, name)
	}
}

// What an API server has allocated is not copied, and makes no difference to whether an object is adopted, unless the rule includes it.
// Patches come after it.
func TestRule_Allocated(t *testing.T) {
	t.Parallel()
	service := func(address string) *unstructured.Unstructured {
		u := configMap("source", "x", nil)
		u.SetKind("Service")
		u.Object["spec"] = map[string]any{"clusterIP": address, "selector": map[string]any{"app": "a"}}
		return u
	}
	for include, copied := range map[string]string{"include: []": "", "include: [/spec/clusterIP]": "10.0.0.1"} {
		r := theRule(t, "adopt: IfEqual", "kind: {apiVersion: v1, kind: Service}", include,
			`patches: [{when: {matchLabels: {headless: "yes"}}, path: /spec/clusterIP, cel: "'None'"}]`)
		down := r.Translator(rules.Place{Cluster: "a"}).Metadata(service("10.0.0.1"), types.NamespacedName{Namespace: "source", Name: "x"})
		address, _, _ := unstructured.NestedString(down.Object, "spec", "clusterIP")
		testkit.Equal(t, address, copied, include)
		p, err := r.Patcher(rules.Cluster{Name: "a"})
		testkit.Must(t, err)
		testkit.Equal(t, r.Adopts(t.Context(), p, down, service("10.0.0.2")), copied == "", include)
		headless, err := r.Patcher(rules.Cluster{Name: "a", Labels: map[string]string{"headless": "yes"}})
		testkit.Must(t, err)
		testkit.Must(t, headless.Apply(t.Context(), down))
		address, _, _ = unstructured.NestedString(down.Object, "spec", "clusterIP")
		testkit.Equal(t, address, "None", include)
	}
}
