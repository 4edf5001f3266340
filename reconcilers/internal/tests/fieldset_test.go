// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
)

// object parses YAML. Numbers become float64, as encoding/json makes them.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var obj map[string]any
	testkit.Must(t, yaml.Unmarshal([]byte(text), &obj))
	return obj
}

func TestContains(t *testing.T) {
	t.Parallel()
	const deployment = `{spec: {template: {spec: {containers: [{name: app, image: a, ports: [{containerPort: 80}]}, {name: log, image: b}]}}}}`
	const containers = "spec.template.spec.containers"
	for _, test := range []struct {
		what, actual, desired string
		path                  string // empty: contained
	}{
		{"nothing desired", `{a: 1}`, `{}`, ""},
		{"other fields", `{a: 1, b: 2}`, `{a: 1}`, ""},
		{"another value", `{spec: {a: x}}`, `{spec: {a: y}}`, "spec.a"},
		{"a missing field", `{spec: {}}`, `{spec: {a: y}}`, "spec.a"},
		{"a missing parent", `{}`, `{spec: {a: y}}`, "spec"},
		{"the first of two by key", `{}`, `{b: 1, a: 1, c: 1}`, "a"},
		{"an empty string", `{}`, `{a: ""}`, "a"},
		{"false", `{}`, `{a: false}`, "a"},
		{"null and absent", `{}`, `{a: null}`, ""},
		{"null and present", `{a: 1}`, `{a: null}`, ""},
		{"an empty map and absent", `{}`, `{a: {}}`, ""},
		{"an empty map and null", `{a: null}`, `{a: {}}`, ""},
		{"an empty map and a map", `{a: {b: 1}}`, `{a: {}}`, ""},
		{"an empty list and absent", `{}`, `{a: []}`, ""},
		{"an empty list and a list", `{a: [1]}`, `{a: []}`, "a"},
		{"a map and a scalar", `{a: 1}`, `{a: {b: 1}}`, "a"},
		{"a map and a list", `{a: [{b: 1}]}`, `{a: {b: 1}}`, "a"},
		{"a list and a map", `{a: {b: 1}}`, `{a: [1]}`, "a"},
		{"a scalar and a map", `{a: {b: 1}}`, `{a: 1}`, "a"},
		{"a number and a string", `{a: "1"}`, `{a: 1}`, "a"},
		{"a quantity", `{cpu: "1"}`, `{cpu: 1000m}`, "cpu"},

		{"equal scalars", `{a: [x, y]}`, `{a: [x, y]}`, ""},
		{"scalars in another order", `{a: [y, x]}`, `{a: [x, y]}`, "a"},
		{"more scalars", `{a: [x, y]}`, `{a: [x]}`, "a"},
		{"finalizers of others", `{metadata: {finalizers: [b, a]}}`, `{metadata: {finalizers: [a]}}`, ""},
		{"a finalizer too few", `{metadata: {finalizers: [b]}}`, `{metadata: {finalizers: [a]}}`, "metadata.finalizers"},
		{"lists of lists", `{a: [[1], [2]]}`, `{a: [[1], [3]]}`, "a"},

		{"an equal Deployment", deployment, deployment, ""},
		{
			"defaults in a container", `{spec: {template: {spec: {containers: [
				{name: app, image: a, imagePullPolicy: Always, ports: [{containerPort: 80, protocol: TCP}]}, {name: log, image: b}]}}}}`,
			deployment, "",
		},
		{
			"a sidecar in front", `{spec: {template: {spec: {containers: [{name: proxy, image: p},
				{name: app, image: a, ports: [{containerPort: 80}]}, {name: log, image: b}]}}}}`, deployment, "",
		},
		{
			"an image behind a sidecar", `{spec: {template: {spec: {containers: [{name: proxy, image: p},
				{name: app, image: z, ports: [{containerPort: 80}]}, {name: log, image: b}]}}}}`, deployment, containers + "[0].image",
		},
		{
			"a port", `{spec: {template: {spec: {containers: [
				{name: app, image: a, ports: [{containerPort: 81}]}, {name: log, image: b}]}}}}`, deployment, containers + "[0].ports[0].containerPort",
		},
		{
			"a missing container", `{spec: {template: {spec: {containers: [
				{name: app, image: a, ports: [{containerPort: 80}]}]}}}}`, deployment, containers + "[1]",
		},
		{
			"containers in another order", `{spec: {template: {spec: {containers: [
				{name: log, image: b}, {name: app, image: a, ports: [{containerPort: 80}]}]}}}}`, deployment, containers + "[1]",
		},
		{
			"an owner of others", `{metadata: {ownerReferences: [{kind: A, name: a, uid: "1"}, {kind: A, name: b, uid: "2"}]}}`,
			`{metadata: {ownerReferences: [{kind: A, name: b, uid: "2"}]}}`, "",
		},
		{
			"a condition of others", `{status: {conditions: [{type: A, status: "True"}, {type: B, status: "True"}]}}`,
			`{status: {conditions: [{type: B, status: "True"}]}}`, "",
		},
		{
			"an additional subject", `{subjects: [{kind: User, name: a}, {kind: User, name: b}]}`,
			`{subjects: [{kind: User, name: a}]}`, "subjects",
		},
		{"an additional rule", `{rules: [{verbs: [get]}, {verbs: ["*"]}]}`, `{rules: [{verbs: [get]}]}`, "rules"},
		{"a rule", `{rules: [{verbs: ["*"]}]}`, `{rules: [{verbs: [get]}]}`, "rules[0].verbs"},
		{"an additional metric", `{metrics: [{type: Resource}, {type: Pods}]}`, `{metrics: [{type: Resource}]}`, "metrics"},
		{
			"a spread constraint of others", `{a: [{topologyKey: z, whenUnsatisfiable: X}, {topologyKey: w, whenUnsatisfiable: X}]}`,
			`{a: [{topologyKey: w, whenUnsatisfiable: X}]}`, "",
		},

		{"a key of data", `{data: {tls.crt: eA==}}`, `{data: {tls.crt: eQ==}}`, "data[tls.crt]"},
		{"an annotation", `{metadata: {}}`, `{metadata: {annotations: {a.example/b: x}}}`, "metadata.annotations"},
		{"a label", `{metadata: {labels: {}}}`, `{metadata: {labels: {a.example/b: x}}}`, "metadata.labels[a.example/b]"},
		{"a key with a dot at the root", `{}`, `{a.b: x}`, "[a.b]"},
		{"a key with brackets", `{}`, `{"a]b\n": x}`, `["a]b\n"]`},
		{"an empty key", `{}`, `{"": x}`, "[]"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			path, ok := fieldset.Contains(object(t, test.actual), object(t, test.desired))
			if path != test.path || ok != (test.path == "") {
				t.Errorf("got %q, %t, want %q", path, ok, test.path)
			}
		})
	}
}

// More has what only the schema tells to be somebody else's.
func TestMore(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ actual, desired, want string }{
		"nothing":             {`{a: 1, b: {c: 1, d: 2}, e: [1]}`, `{a: 1, b: {c: 1}, e: [1]}`, ``},
		"an empty map":        {`{spec: {podSelector: {matchLabels: {a: b}}}}`, `{spec: {podSelector: {}}}`, `{spec.podSelector: {matchLabels: {a: b}}}`},
		"an empty map, alike": {`{a: {}, b: {}}`, `{a: {}, b: {}, c: {}}`, ``},
		"null":                {`{a: 30s, b: null}`, `{a: null, b: null, c: null}`, `{a: 30s}`},
		"elements": {
			`{users: [{name: a, x: {y: 1}}, {name: b}, {name: c}, {name: d}]}`, `{users: [{name: a, x: {}}, {name: c}]}`,
			`{"users[0].x": {y: 1}, users: [{name: b}, {name: d}]}`,
		},
		"in a list without keys": {`{a: [{b: {c: 1}}]}`, `{a: [{b: {}}]}`, `{"a[0].b": {c: 1}}`},
		"finalizers":             {`{metadata: {finalizers: [a, b]}}`, `{metadata: {finalizers: [a]}}`, ``},
	} {
		var want map[string]any
		if test.want != "" {
			want = object(t, test.want)
		}
		testkit.Equal(t, fieldset.More(object(t, test.actual), object(t, test.desired)), want, what)
	}
}

// TestContainsCutsLongKeys tests that a key of a custom resource cannot make a message of any length.
func TestContainsCutsLongKeys(t *testing.T) {
	t.Parallel()
	path, ok := fieldset.Contains(nil, map[string]any{strings.Repeat("k", 1_000_000): "x"})
	if want := "[" + strings.Repeat("k", 320) + "...]"; ok || path != want {
		t.Errorf("got %d bytes, %t, want %d bytes", len(path), ok, len(want))
	}
}

func TestContainsComparesNumbersByValue(t *testing.T) {
	t.Parallel()
	same := [][]any{
		{int64(0), 0, int32(0), 0.0, -1.0 * 0, json.Number("0"), json.Number("0.0"), json.Number("-0")},
		{int64(3), 3, int32(3), 3.0, json.Number("3"), json.Number("3.0"), json.Number("3e0")},
		{1.5, json.Number("1.5"), json.Number("15e-1")},
		{int64(1 << 53), float64(1 << 53), json.Number("9007199254740992")},
		{int64(1<<53 + 1), json.Number("9007199254740993")},
		{1e300, json.Number("1e300")},
		{float64(1 << 63), json.Number("9223372036854775808")},
		{int64(-1 << 63), float64(-1 << 63), json.Number("-9223372036854775808")},
		{int64(1<<63 - 1), json.Number("9223372036854775807")},
		{"3"},
		{true},
		{json.Number("1e999999999")},
	}
	for i, left := range same {
		for j, right := range same {
			for _, a := range left {
				for _, b := range right {
					if _, ok := fieldset.Contains(map[string]any{"n": a}, map[string]any{"n": b}); ok != (i == j) {
						t.Errorf("%T %v contains %T %v: %t", a, a, b, b, ok)
					}
				}
			}
		}
	}
}

// TestContainsOfForeignTypes tests values that an unstructured object must not have: they are compared without a panic.
func TestContainsOfForeignTypes(t *testing.T) {
	t.Parallel()
	one, other := map[string]any{"a": []string{"x"}}, map[string]any{"a": []string{"y"}}
	if path, ok := fieldset.Contains(one, one); !ok {
		t.Errorf("%s differs from itself", path)
	}
	if path, ok := fieldset.Contains(one, other); ok || path != "a" {
		t.Errorf("got %q, %t", path, ok)
	}
}
