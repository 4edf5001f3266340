// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// New returns an empty object. O is a pointer to a struct.
func New[O client.Object]() O {
	return reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O)
}

// KindOf needs a type that the client's scheme knows. Unstructured objects cannot be reconciled: the functions of the
// options need the fields, and a new object must know its kind.
func KindOf[O client.Object](c client.Client) (schema.GroupVersionKind, error) {
	t := reflect.TypeFor[O]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return schema.GroupVersionKind{}, fmt.Errorf("%v is not a pointer to a struct", t)
	}
	obj := New[O]()
	_, isMap := any(obj).(runtime.Unstructured)
	_, isPart := any(obj).(*metav1.PartialObjectMetadata)
	if isMap || isPart {
		return schema.GroupVersionKind{}, fmt.Errorf(
			"%v has no kind; write a Go type with the fields that are needed, and add it to the scheme", t)
	}
	gvk, err := c.GroupVersionKindFor(obj)
	if runtime.IsNotRegisteredError(err) {
		return gvk, fmt.Errorf("%w; add it to the scheme, as with fx.Invoke(v1.AddToScheme) in the hub part of the module", err)
	}
	return gvk, err
}
