// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// shape is what a protobuf message is decoded to: a Go type, as far as the decoder's memory goes.
type shape struct {
	size   int64 // of the type
	fields map[uint64]fieldShape
}

// fieldShape is a field of a message. Its zero value is one that is dropped, or that takes nothing but
// its bytes.
type fieldShape struct {
	cost    int64  // each time it comes, in bytes of memory
	perByte int64  // of its length; 0 means 1
	message *shape // what it has in it, or nil
	role    role
}

// role tells the fields that objects come in from those of objects.
type role int

const (
	roleValue      role = iota
	roleAPIVersion      // of the object that comes later
	roleKind            // of that, too
	roleObject
	roleAnswer // has an envelope in it
)

// What objects come in: a runtime.Unknown, and a metav1.WatchEvent.
var (
	envelope = &shape{fields: map[uint64]fieldShape{
		1: {message: &shape{fields: map[uint64]fieldShape{1: {role: roleAPIVersion}, 2: {role: roleKind}}}},
		2: {role: roleObject},
	}}
	watchEvent = &shape{fields: map[uint64]fieldShape{
		2: {message: &shape{fields: map[uint64]fieldShape{1: {role: roleAnswer}}}},
	}}
)

// metaScheme has the kinds that every API server can answer with.
var metaScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	if err := metav1.AddMetaToScheme(s); err != nil {
		panic(err) // It adds the same types each time.
	}
	return s
}()

// shapeOfKind returns the shape of a kind that the app knows, or that client-go does: its clients take
// protobuf of no others. It returns nil for others.
func shapeOfKind(app *runtime.Scheme, gvk schema.GroupVersionKind) *shape {
	for _, s := range []*runtime.Scheme{app, scheme.Scheme, metaScheme} {
		if s == nil || !s.Recognizes(gvk) {
			continue
		}
		if obj, err := s.New(gvk); err == nil {
			return shapeOf(reflect.TypeOf(obj).Elem())
		}
	}
	return nil
}

// shapes has the shapes of types by reflect.Type. Types do not change.
var (
	shapes     = map[reflect.Type]*shape{}
	shapesLock sync.Mutex
)

func shapeOf(t reflect.Type) *shape {
	shapesLock.Lock()
	defer shapesLock.Unlock()
	return addShape(t)
}

// addShape needs the lock. A type may have itself in it.
func addShape(t reflect.Type) *shape {
	if s, ok := shapes[t]; ok {
		return s
	}
	s := &shape{size: sizeOf(t), fields: map[uint64]fieldShape{}}
	shapes[t] = s
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if number, many, ok := protobufField(t.Field(i)); ok {
				s.fields[number] = fieldShapeOf(t.Field(i).Type, many)
			}
		}
	case reflect.Slice: // a message that is nothing but a list, like metav1.Verbs
		s.fields[1] = repeated(t.Elem())
	}
	return s
}

// protobufField returns the number of a field in protobuf, and whether it comes many times, from its tag.
func protobufField(f reflect.StructField) (number uint64, many, ok bool) {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 3 {
		return 0, false, false
	}
	number, err := strconv.ParseUint(parts[1], 10, 32)
	return number, parts[2] == "rep", err == nil
}

const (
	// growth is how many times the size of its elements a list takes while it grows.
	growth = 2
	// slotsOfEntry is the room that an entry of a map takes. A small map has eight slots; of a larger
	// one at least seven sixteenths are used.
	slotsOfEntry = 6
)

func fieldShapeOf(t reflect.Type, many bool) fieldShape {
	switch {
	case t.Kind() == reflect.Pointer:
		f := fieldShapeOf(t.Elem(), many)
		f.cost += sizeOf(t.Elem())
		return f
	case t.Kind() == reflect.Map:
		return fieldShape{cost: mapHeader + slotsOfEntry*(sizeOf(t.Key())+sizeOf(t.Elem())+1), message: entryOf(t)}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return fieldShape{}
	case t.Kind() == reflect.Slice && many:
		return repeated(t.Elem())
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Struct:
		return fieldShape{message: addShape(t)}
	}
	return fieldShape{}
}

// entryOf is the message that an entry of a map comes in.
func entryOf(t reflect.Type) *shape {
	return &shape{fields: map[uint64]fieldShape{1: fieldShapeOf(t.Key(), false), 2: fieldShapeOf(t.Elem(), false)}}
}

// repeated is the field of a list.
func repeated(t reflect.Type) fieldShape {
	f := fieldShapeOf(t, false)
	f.cost += growth * sizeOf(t)
	if kind := t.Kind(); f.message == nil && kind != reflect.String && kind != reflect.Slice {
		f.perByte = growth * sizeOf(t) // numbers, packed
	}
	return f
}

func sizeOf(t reflect.Type) int64 {
	return int64(t.Size()) //nolint:gosec // No type has 2^63 bytes.
}
