// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
)

// Promise: a hub of an earlier version leaves the CRD of a later one, and names its fields before anything is changed.
func TestWithoutOlderCRD(t *testing.T) {
	t.Parallel()
	c, _ := installed(t)
	const crd, second = "CustomResourceDefinition//clusters.clusterfx.dev", "CustomResourceDefinition//syncrules.clusterfx.dev"
	all := objects(t, install.Options{})
	kept, newer, err := install.WithoutOlderCRD(t.Context(), c, all)
	if err != nil || len(kept) != len(all) || len(newer) != 0 {
		t.Errorf("the same CRD: %d of %d objects stay, fields %v (%v)", len(kept), len(all), newer, err)
	}
	for of, field := range map[string]string{crd: "state", second: "deletionPolicy"} {
		older := find(t, all, of)
		versions, _, err := unstructured.NestedSlice(older.Object, "spec", "versions")
		must(t, err)
		unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", field)
		must(t, unstructured.SetNestedSlice(older.Object, versions, "spec", "versions"))
	}
	kept, newer, err = install.WithoutOlderCRD(t.Context(), c, all)
	must(t, err)
	if diff := gocmp.Diff([]string{"v1alpha1.spec.deletionPolicy", "v1alpha1.spec.state"}, newer); diff != "" {
		t.Errorf("the fields of the newer CRD:\n%s", diff)
	}
	if len(kept) != len(all)-2 || slices.ContainsFunc(kept, func(o *unstructured.Unstructured) bool { return id(o) == crd || id(o) == second }) {
		t.Errorf("%d of %d objects stay", len(kept), len(all))
	}
}
