// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
