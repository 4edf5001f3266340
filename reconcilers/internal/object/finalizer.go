// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Finalizers changes the finalizers of objects of one kind.
type Finalizers struct {
	Client client.Writer           // Client writes. Its reads are not used.
	Kind   schema.GroupVersionKind // the kind of the objects
	Owner  string                  // the field manager
}

// Set replaces the finalizers, and nothing else, if the object still has the UID and resourceVersion of known; else
// the error is a conflict. It returns the metadata after the write.
func (f Finalizers) Set(ctx context.Context, known metav1.Object, finalizers []string) (*metav1.PartialObjectMetadata, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": known.GetUID(), "resourceVersion": known.GetResourceVersion(), "finalizers": finalizers,
	}})
	if err != nil {
		return nil, err
	}
	target := f.metadata(known)
	return target, f.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(f.Owner))
}

func (f Finalizers) metadata(obj metav1.Object) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(f.Kind)
	m.SetNamespace(obj.GetNamespace())
	m.SetName(obj.GetName())
	return m
}

// Read reads the metadata of an object.
func (f Finalizers) Read(ctx context.Context, r client.Reader, obj metav1.Object) (*metav1.PartialObjectMetadata, error) {
	m := f.metadata(obj)
	return m, r.Get(ctx, client.ObjectKeyFromObject(m), m)
}
