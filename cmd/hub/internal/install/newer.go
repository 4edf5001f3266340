// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const crdKind = "CustomResourceDefinition"

// WithoutOlderCRD leaves each CRD of which the cluster has a newer one out of the objects, and returns the fields, sorted, that only that
// one has: with the older CRD the API server would drop what a newer hub has written there. A CRD stays if the cluster has none, or it
// may not be read.
func WithoutOlderCRD(ctx context.Context, c client.Reader, objects []*unstructured.Unstructured) (kept []*unstructured.Unstructured, newer []string, err error) {
	for _, object := range objects {
		var more []string
		if object.GetKind() == crdKind {
			if more, err = newerFields(ctx, c, object); err != nil {
				return nil, nil, fmt.Errorf("read the CRD in the cluster: %w", err)
			}
		}
		if newer = append(newer, more...); len(more) == 0 {
			kept = append(kept, object)
		}
	}
	slices.Sort(newer)
	return kept, newer, nil
}

func newerFields(ctx context.Context, c client.Reader, crd *unstructured.Unstructured) (newer []string, err error) {
	installed := crd.DeepCopy()
	err = c.Get(ctx, client.ObjectKeyFromObject(crd), installed)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	own := fieldsOf(crd)
	for field := range fieldsOf(installed) {
		if !own[field] {
			newer = append(newer, field)
		}
	}
	return newer, err
}

// fieldsOf are the fields of a CRD's versions, such as v1alpha1.spec.state.
func fieldsOf(crd *unstructured.Unstructured) map[string]bool {
	found := map[string]bool{}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, version := range versions {
		one, _ := version.(map[string]any)
		name, _, _ := unstructured.NestedString(one, "name")
		schema, _, _ := unstructured.NestedMap(one, "schema", "openAPIV3Schema")
		addFields(found, name, schema)
	}
	return found
}

func addFields(found map[string]bool, path string, schema map[string]any) {
	found[path] = true
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if one, ok := property.(map[string]any); ok {
			addFields(found, path+"."+name, one)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if element, ok := schema[key].(map[string]any); ok {
			addFields(found, path+"[]", element)
		}
	}
}
