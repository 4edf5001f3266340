// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// OnlyNew is the resourceVersion of an apply that may only create. No object has it, because the first revision of
// etcd belongs to none: the API server creates, or returns a conflict.
const OnlyNew = "1"

// Fields returns what server-side apply sends. It shares nothing with obj.
func Fields(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy().Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// Generic returns what JSON makes of a value, with whole numbers.
func Generic(v any) (map[string]any, error) {
	text, err := utiljson.Marshal(v)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, utiljson.Unmarshal(text, &fields)
}

// ApplyStatus is server-side apply of a status by the field owner of c, if the API server still has the UID and resourceVersion of
// obj. It returns the object after the write.
func ApplyStatus(ctx context.Context, c client.Client, obj client.Object, status map[string]any) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return nil, err
	}
	fields, err := Generic(map[string]any{"status": status})
	if err != nil {
		return nil, err
	}
	applied := &unstructured.Unstructured{Object: fields}
	applied.SetGroupVersionKind(kind)
	applied.SetNamespace(obj.GetNamespace())
	applied.SetName(obj.GetName())
	applied.SetUID(obj.GetUID())
	applied.SetResourceVersion(obj.GetResourceVersion())
	return applied, c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.ForceOwnership)
}

// DeleteExactly has the UID and, if there is one, the resourceVersion as preconditions. An object that has gone is no
// error.
func DeleteExactly(ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption) error {
	uid, revision := obj.GetUID(), obj.GetResourceVersion()
	exactly := client.Preconditions{UID: &uid}
	if revision != "" {
		exactly.ResourceVersion = &revision
	}
	opts = append([]client.DeleteOption{exactly, client.PropagationPolicy(metav1.DeletePropagationBackground)}, opts...)
	return client.IgnoreNotFound(c.Delete(ctx, obj, opts...))
}
