// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// syncRule returns a SyncRule as YAML, in which lines replace those of the same field of the spec.
func syncRule(t *testing.T, name string, lines ...string) *unstructured.Unstructured {
	t.Helper()
	spec := map[string]any{}
	all := append([]string{
		"from: Hub", "kind: {apiVersion: v1, kind: ConfigMap}", "namespaces: {names: [a]}", "to: {naming: Mirror}",
	}, lines...)
	for _, line := range all {
		testkit.Must(t, yaml.Unmarshal([]byte(line), &spec))
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(hubv1.GroupVersion.WithKind("SyncRule"))
	u.SetName(name)
	return u
}

// The API server refuses what a rule can never mean.
func TestSyncRule_Refused(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	const template = `namespaces: {template: "tenant-{{cluster}}"}`
	for want, lines := range map[string][]string{
		`Unsupported value: "hub"`:                  {"from: hub"},
		"use one of names, selector and template":   {"namespaces: {names: [a], selector: {}}"},
		"a definition is brought only from the hub": {"from: Remote", "bringCRD: IfAbsent"},
		"could take over an object of the hub":      {"from: Remote", "adopt: IfEqual"},
		"namespaces are made only in remotes":       {"from: Remote", "to: {naming: Mirror, createNamespace: IfAbsent}"},
		"use either jsonPatch, or path and cel":     {"patches: [{path: /data/a}]"},
		`Unsupported value: "set"`:                  {"patches: [{jsonPatch: [{op: set, path: /data/a}]}]"},
		"values are for the operators In and NotIn": {"clusters: {matchExpressions: [{key: a, operator: In}]}"},
		"must have at most 64 items":                {"exclude: [" + strings.Repeat("/a,", 65) + "]"},
		"may not be more than 4096 bytes":           {"patches: [{path: /data/a, cel: '" + strings.Repeat("a", 4097) + "'}]"},
		`unknown field "spec.unknown"`:              {template, "unknown: 1"},
	} {
		testkit.ErrorHas(t, c.Create(t.Context(), syncRule(t, "refused", lines...)), want, lines)
	}
	testkit.ErrorHas(t, c.Create(t.Context(), syncRule(t, strings.Repeat("a", 33))), "at most 32 characters")
}

// Kind and source of a rule never change, and any JSON is the value of a JSON Patch.
func TestSyncRule_Immutable(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	created := syncRule(t, "immutable", `patches: [{jsonPatch: [{op: add, path: /data/a, value: {b: [1, "c"]}}]}]`)
	testkit.Must(t, c.Create(t.Context(), created))
	for want, change := range map[string][]string{
		"from is immutable": {"Remote", "spec", "from"}, "kind is immutable": {"Secret", "spec", "kind", "kind"},
	} {
		changed := created.DeepCopy()
		testkit.Must(t, unstructured.SetNestedField(changed.Object, change[0], change[1:]...))
		testkit.ErrorHas(t, c.Update(t.Context(), changed), want)
	}
	got := &hubv1.SyncRule{}
	testkit.Must(t, c.Get(t.Context(), client.ObjectKeyFromObject(created), got))
	testkit.Equal(t, string(got.Spec.Patches[0].JSONPatch[0].Value.Raw), `{"b":[1,"c"]}`, "the value")
}

// A new rule has the defaults, and no tool that waits takes it for done.
func TestSyncRule_Defaults(t *testing.T) {
	t.Parallel()
	cluster, c := hub(t)
	testkit.Must(t, c.Create(t.Context(), syncRule(t, "defaults")))
	got := &hubv1.SyncRule{}
	testkit.Must(t, c.Get(t.Context(), client.ObjectKey{Name: "defaults"}, got))
	want := hubv1.SyncRuleSpec{
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "ConfigMap"},
		Namespaces: hubv1.SyncNamespaces{Names: []string{"a"}},
		To:         hubv1.SyncTarget{Naming: hubv1.SyncMirror, CreateNamespace: hubv1.SyncCreateNever},
		Mode:       hubv1.SyncEnforce, Adopt: hubv1.SyncAdoptNever, Status: hubv1.SyncIgnore, BringCRD: hubv1.SyncCreateNever,
		OnTargetDeletion: hubv1.SyncRecreate, OnDeregister: hubv1.SyncKeep, DeletionPolicy: hubv1.SyncKeep,
	}
	testkit.Equal(t, got.Spec, want, "spec")
	testkit.Equal(t, got.Status, hubv1.SyncRuleStatus{ObservedGeneration: -1, Conditions: pending().Conditions}, "status")

	got.Status.Conditions = []metav1.Condition{{
		Type: hubv1.ConditionReady, Status: metav1.ConditionTrue, Reason: hubv1.ReasonFollowing, LastTransitionTime: metav1.Now(),
	}}
	got.Status.Summary, got.Status.Copies, got.Status.ProblemCount = "2/3", new(int32(5)), new(int32(1))
	testkit.Must(t, c.Status().Update(t.Context(), got))
	testkit.Equal(t, squeeze(kubectl(t, cluster, "get", "fxsr", "defaults")),
		"NAME KIND FROM READY CLUSTERS COPIES PROBLEMS AGE\ndefaults ConfigMap Hub True 2/3 5 1 AGE", "columns")
}
