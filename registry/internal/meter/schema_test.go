// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"bytes"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// The meter understands every kind of Kubernetes with all of its fields, and charges for its memory: a field of the
// wrong type would prevent reads of honest remotes.
func TestShapes_OfEveryKind(t *testing.T) {
	t.Parallel()
	all := NewSchemas(scheme.Scheme)
	understood := 0
	for _, known := range all.schemes {
		serializer := protobuf.NewSerializer(known, known)
		for gvk, kind := range known.AllKnownTypes() {
			obj, ok := filled(kind)
			if gvk.Version == runtime.APIVersionInternal || gvk.Kind == "WatchEvent" || !ok {
				continue // never sent as an object
			}
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			var data bytes.Buffer
			if err := serializer.Encode(obj, &data); err != nil {
				continue // has no protobuf encoding
			}
			m := newProtobufMeter(bill{limit: 1 << 62}, all, false)
			if err := m.Read(data.Bytes()); err != nil {
				t.Errorf("%s: got error %v", gvk, err)
			}
			decoded, _, err := serializer.Decode(data.Bytes(), nil, nil)
			if err != nil {
				t.Errorf("%s: got error %v", gvk, err)
				continue
			}
			const ofKind = 64                                     // bytes: some decoders keep the kind
			if kept := Sizeof(decoded); m.sum+ofKind < kept*3/4 { // a map of one entry has room for eight
				t.Errorf("%s: charged %d bytes, but %d are kept", gvk, m.sum, kept)
			}
			understood++
		}
	}
	if understood < 500 {
		t.Errorf("got %d encoded kinds, want at least 500", understood)
	}
}

// filled returns an object of a type with a value in every field.
func filled(kind reflect.Type) (obj runtime.Object, ok bool) {
	v := reflect.New(kind)
	fill(v.Elem(), 0)
	obj, ok = v.Interface().(runtime.Object)
	return obj, ok
}

// fill sets a value and all values that it refers to. Recursive types end at a depth.
func fill(v reflect.Value, depth int) {
	const deepest = 14
	switch v.Interface().(type) {
	case runtime.RawExtension, metav1.Time, metav1.MicroTime, resource.Quantity, metav1.TypeMeta, schema.GroupVersionKind:
		return // types with their own encoding
	}
	if !v.CanSet() || depth > deepest {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		const length = 3
		v.Set(reflect.MakeSlice(v.Type(), length, length))
		for i := range length {
			fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("a text of some length")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(300)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	}
}
