// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/internal/fieldset"
)

func TestWithout(t *testing.T) {
	t.Parallel()
	const before = `{spec: {replicas: 2, list: [a, b, c], nested: [{x: 1, q: 1}, {x: 2}]}, metadata: {annotations: {a/b: x, c~d: y}}, "": {"": 1}, "0": z}`
	for _, test := range []struct {
		what     string
		pointers []string
		want     string
	}{
		{"nothing", nil, before},
		{"a field", []string{"/spec/replicas", "/spec/nested", "/metadata/annotations", "/", "/0"}, `{spec: {list: [a, b, c]}, metadata: {}}`},
		{"an escaped slash", []string{"/metadata/annotations/a~1b"}, `{spec: {replicas: 2, list: [a, b, c], nested: [{x: 1, q: 1}, {x: 2}]}, metadata: {annotations: {c~d: y}}, "": {"": 1}, "0": z}`},
		{"an escaped tilde", []string{"/metadata/annotations/c~0d", "/spec"}, `{metadata: {annotations: {a/b: x}}, "": {"": 1}, "0": z}`},
		{"empty keys", []string{"//", "/spec"}, `{metadata: {annotations: {a/b: x, c~d: y}}, "": {}, "0": z}`},
		{"elements of a list", []string{"/spec/list/0", "/spec/list/2", "/spec/nested/1", "/spec/nested/0/q"}, `{spec: {replicas: 2, list: [b], nested: [{x: 1}]}, metadata: {annotations: {a/b: x, c~d: y}}, "": {"": 1}, "0": z}`},
		{"fields that are absent", []string{"/x", "/spec/x/q", "/spec/replicas/x", "/spec/list/3", "/spec/list/-", "/spec/list/00", "/spec/list/-1", "/spec/list/x", "/spec/list/0/x", "/metadata/annotations/a~01b"}, before},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			obj := object(t, before)
			testkit.Must(t, fieldset.Without(obj, test.pointers))
			testkit.Equal(t, obj, object(t, test.want), "object")
		})
	}
	for _, pointer := range []string{"", "spec", "spec/replicas", "#/spec", "/spec~", "/a~2b", "/a~/b", "/~~1", "/kind", "/apiVersion", "/metadata", "/metadata/name", "/metadata/namespace"} {
		obj := object(t, before)
		testkit.ErrorIs(t, fieldset.Without(obj, []string{"/spec", pointer}), fieldset.ErrPointer, pointer)
		testkit.Equal(t, obj, object(t, before), pointer, "the object has changed")
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ what, before, want string }{
		{"null", `{a: null, b: {c: null, d: 1}, e: [null, {f: null, g: 1}]}`, `{b: {d: 1}, e: [null, {g: 1}]}`},
		{"status", `{spec: {status: x}, status: {a: 1}}`, `{spec: {status: x}}`},
		{
			"metadata", `{metadata: {name: a, uid: u, resourceVersion: "1", generation: 1, selfLink: l, creationTimestamp: null,
			deletionTimestamp: t, deletionGracePeriodSeconds: 1, managedFields: [{}], labels: {uid: u}}, spec: {metadata: {uid: u}}}`,
			`{metadata: {name: a, labels: {uid: u}}, spec: {metadata: {uid: u}}}`,
		},
		{"a Secret", `{apiVersion: v1, kind: Secret, stringData: {a: x}}`, `{apiVersion: v1, kind: Secret, data: {a: eA==}}`},
		{
			"a Secret with both", `{apiVersion: v1, kind: Secret, stringData: {a: x}, data: {a: eQ==, b: eg==}}`,
			`{apiVersion: v1, kind: Secret, data: {a: eA==, b: eg==}}`,
		},
		{"a Secret of others", `{apiVersion: x/v1, kind: Secret, stringData: {a: x}}`, `{apiVersion: x/v1, kind: Secret, stringData: {a: x}}`},
		{"no metadata", `{metadata: x}`, `{metadata: x}`},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			obj := object(t, test.before)
			fieldset.Prune(obj, true)
			testkit.Equal(t, obj, object(t, test.want), "object")
		})
	}
}

// A null of a custom resource may have a meaning of its own.
func TestPrune_KeepsNulls(t *testing.T) {
	t.Parallel()
	obj := object(t, `{metadata: {creationTimestamp: null}, spec: {timeout: null}}`)
	fieldset.Prune(obj, false)
	testkit.Equal(t, obj, object(t, `{metadata: {}, spec: {timeout: null}}`), "object")
}

// TestPruneTyped tests that nothing is left of a typed object without content but what JSON has of it.
func TestPruneTyped(t *testing.T) {
	t.Parallel()
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Pod{})
	testkit.Must(t, err)
	fieldset.Prune(obj, true)
	testkit.Equal(t, obj, map[string]any{"metadata": map[string]any{}, "spec": map[string]any{}}, "object")
	if path, ok := fieldset.Contains(map[string]any{}, obj); !ok {
		t.Errorf("an object without fields lacks %s", path)
	}
}

// Only the fields that the other object has stay, in lists, too, and they keep their values.
func TestCommon(t *testing.T) {
	t.Parallel()
	obj := map[string]any{
		"a": "1", "b": "2", "m": map[string]any{"x": int64(1), "y": int64(2)}, "changed": map[string]any{"x": "1"},
		"list": []any{map[string]any{"k": "1", "more": true}, "text"}, "longer": []any{map[string]any{"k": "1"}},
	}
	other := map[string]any{
		"a": "other", "m": map[string]any{"y": int64(3), "z": int64(4)}, "changed": "text",
		"list": []any{map[string]any{"k": "2"}, "text"}, "longer": []any{}, "others": "x",
	}
	want := map[string]any{
		"a": "1", "m": map[string]any{"y": int64(2)}, "changed": map[string]any{"x": "1"},
		"list": []any{map[string]any{"k": "1"}, "text"}, "longer": []any{map[string]any{"k": "1"}},
	}
	testkit.Equal(t, fieldset.Common(obj, other), want)
}
