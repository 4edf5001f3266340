// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"fmt"
	"reflect"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an object that is kept as a message. It never changes.
type Object struct {
	kind     *kind
	typeMeta *metav1.TypeMeta      // nil if it is empty
	message  []byte                // the whole message, or its metadata if there is a body
	body     unique.Handle[string] // the rest of the message; zero if there is none
}

var (
	_ runtime.Object            = (*Object)(nil)
	_ metav1.ObjectMetaAccessor = (*Object)(nil)
)

// Unpack returns a new object with the content of the object that an *Object was made of. It returns anything else as it is.
func (*Types) Unpack(obj any) any {
	if one, ok := obj.(*Object); ok {
		return one.DeepCopyObject()
	}
	return obj
}

// DeepCopyObject returns a new object with the content of the object that o was made of, and with its Go type.
func (o *Object) DeepCopyObject() runtime.Object {
	v := reflect.New(o.kind.object)
	obj, _ := v.Interface().(message)
	if err := o.decode(obj); err != nil {
		// The same methods have encoded it in this process, and a test does so with objects of all types.
		panic(fmt.Sprintf("decode a %s that was encoded here: %v", o.kind.object, err))
	}
	if o.typeMeta != nil {
		v.Elem().Field(o.kind.typeMetaIndex).Set(reflect.ValueOf(*o.typeMeta))
	}
	return obj
}

// decode decodes the message into a new object. The decoders copy what they need of a message, and add to what is there.
func (o *Object) decode(into message) error {
	if err := into.Unmarshal(o.message); err != nil || !o.hasBody() {
		return err
	}
	body := o.body.Value()
	buffer := o.kind.types.buffer(len(body))
	defer o.kind.types.buffers.Put(buffer)
	copy(*buffer, body)
	return into.Unmarshal(*buffer)
}

func (o *Object) hasBody() bool { return o.body != unique.Handle[string]{} }

// GetObjectKind returns a copy of the apiVersion and the kind.
func (o *Object) GetObjectKind() schema.ObjectKind {
	if o.typeMeta == nil {
		return &metav1.TypeMeta{}
	}
	return &metav1.TypeMeta{APIVersion: o.typeMeta.APIVersion, Kind: o.typeMeta.Kind}
}

// Size returns the memory that the object takes up, in bytes, without the rounding of the allocator. A body that other
// objects have, too, counts in full.
func (o *Object) Size() int64 {
	size := int(reflect.TypeFor[Object]().Size()) + len(o.message) //nolint:gosec // The size of a struct.
	if o.hasBody() {
		size += len(o.body.Value())
	}
	return int64(size)
}
