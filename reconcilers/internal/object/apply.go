// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OnlyNew is the resourceVersion of an apply that may only create. No object has it, because the first revision of etcd
// belongs to none: an API server creates the object, or returns a conflict if one of that name exists.
const OnlyNew = "1"

// Fields returns an object as server-side apply sends it. The result shares nothing with the object.
func Fields(obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.DeepCopy().Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// DeleteExactly deletes an object with its UID and, if it has one, its resourceVersion as preconditions: an object that has changed
// since it was read, or that has replaced it, is not deleted. An object that has gone is no error.
func DeleteExactly(ctx context.Context, c client.Client, obj client.Object, opts ...client.DeleteOption) error {
	uid, revision := obj.GetUID(), obj.GetResourceVersion()
	exactly := client.Preconditions{UID: &uid}
	if revision != "" {
		exactly.ResourceVersion = &revision
	}
	opts = append([]client.DeleteOption{exactly, client.PropagationPolicy(metav1.DeletePropagationBackground)}, opts...)
	return client.IgnoreNotFound(c.Delete(ctx, obj, opts...))
}
