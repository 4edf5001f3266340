// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// messageType is the Go type of a protobuf message, reduced to the memory that its decoder allocates.
type messageType struct {
	size   int64 // of the type
	fields map[uint64]fieldType
}

// The zero fieldType is dropped, or takes only its bytes.
type fieldType struct {
	cost    int64        // each time it comes, in bytes of memory
	perByte int64        // of its length; 0 means 1
	message *messageType // the type of its value, or nil
	role    role
}

// role tells fields of the envelope from those of objects.
type role int

const (
	roleValue      role = iota
	roleAPIVersion      // of the object that comes later
	roleKind            // of that, too
	roleObject
	roleAnswer // has an envelope in it
	roleQuantity
)

// Schemas has the shape of every kind that may be decoded, and of the envelopes.
type Schemas struct {
	schemes []*runtime.Scheme

	envelope   *messageType // a runtime.Unknown
	watchEvent *messageType // a metav1.WatchEvent
	quantity   *messageType // a resource.Quantity, which is a text

	byKind sync.Map // *shape by schema.GroupVersionKind, of kinds that are known

	mu     sync.Mutex // protects the field
	byType map[reflect.Type]*messageType
}

// NewSchemas returns the shapes of the kinds in this scheme, and of those that every client knows. Clients with this
// scheme accept protobuf of no others.
func NewSchemas(app *runtime.Scheme) *Schemas {
	anyServer := runtime.NewScheme() // the kinds that any API server can respond with
	metav1.AddToGroupVersion(anyServer, metav1.SchemeGroupVersion)
	metav1.AddToGroupVersion(anyServer, schema.GroupVersion{Version: "v1"})
	if err := metav1.AddMetaToScheme(anyServer); err != nil {
		panic(err) // It adds the same types each time.
	}
	typeMeta := &messageType{fields: map[uint64]fieldType{1: {role: roleAPIVersion}, 2: {role: roleKind}}}
	rawExtension := &messageType{fields: map[uint64]fieldType{1: {role: roleAnswer}}}
	return &Schemas{
		schemes:    []*runtime.Scheme{app, scheme.Scheme, anyServer},
		envelope:   &messageType{fields: map[uint64]fieldType{1: {message: typeMeta}, 2: {role: roleObject}}},
		watchEvent: &messageType{fields: map[uint64]fieldType{2: {message: rawExtension}}},
		quantity:   &messageType{fields: map[uint64]fieldType{1: {role: roleQuantity}}},
		byType:     map[reflect.Type]*messageType{},
	}
}

// ofKind returns nil for an unknown kind.
func (s *Schemas) ofKind(gvk schema.GroupVersionKind) *messageType {
	if known, ok := s.byKind.Load(gvk); ok {
		one, _ := known.(*messageType)
		return one
	}
	one := s.find(gvk)
	if one != nil {
		s.byKind.Store(gvk, one)
	}
	return one
}

func (s *Schemas) find(gvk schema.GroupVersionKind) *messageType {
	for _, one := range s.schemes {
		if !one.Recognizes(gvk) {
			continue
		}
		if obj, err := one.New(gvk); err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.add(reflect.TypeOf(obj).Elem())
		}
	}
	return nil
}

// add needs the lock. A type may have itself in it.
func (s *Schemas) add(t reflect.Type) *messageType {
	if known, ok := s.byType[t]; ok {
		return known
	}
	one := &messageType{size: sizeOf(t), fields: map[uint64]fieldType{}}
	s.byType[t] = one
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if number, ok := protobufField(t.Field(i)); ok {
				one.fields[number] = s.field(t.Field(i).Type)
			}
		}
	case reflect.Slice: // a message that is nothing but a list, like metav1.Verbs
		one.fields[1] = s.repeated(t.Elem())
	}
	return one
}

// protobufField returns the number of a field from its tag. The tag does not tell reliably whether a field is repeated:
// that of a Pod's tolerations has "opt", as many lists.
func protobufField(f reflect.StructField) (number uint64, ok bool) {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 3 {
		return 0, false
	}
	number, err := strconv.ParseUint(parts[1], 10, 32)
	return number, err == nil
}

// isMessage: other lists are fields that come many times.
func isMessage(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ Unmarshal([]byte) error }]())
}

const (
	// Growth is how many times the size of its elements a growing list takes.
	Growth = 2
	// slotsOfEntry is the room of a map's entry. A small map has eight slots; of a larger one seven sixteenths or more
	// are used.
	slotsOfEntry = 6
)

// field needs the lock.
func (s *Schemas) field(t reflect.Type) fieldType {
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return fieldType{message: s.quantity}
	case t.Kind() == reflect.Pointer:
		f := s.field(t.Elem())
		f.cost += sizeOf(t.Elem())
		return f
	case t.Kind() == reflect.Map:
		return fieldType{cost: mapHeader + slotsOfEntry*(sizeOf(t.Key())+sizeOf(t.Elem())+1), message: s.entryOf(t)}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return fieldType{}
	case t.Kind() == reflect.Slice && !isMessage(t):
		return s.repeated(t.Elem())
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Struct:
		return fieldType{message: s.add(t)}
	}
	return fieldType{}
}

func (s *Schemas) entryOf(t reflect.Type) *messageType {
	return &messageType{fields: map[uint64]fieldType{1: s.field(t.Key()), 2: s.field(t.Elem())}}
}

func (s *Schemas) repeated(t reflect.Type) fieldType {
	f := s.field(t)
	f.cost += Growth * sizeOf(t)
	if kind := t.Kind(); f.message == nil && kind != reflect.String && kind != reflect.Slice {
		f.perByte = Growth * sizeOf(t) // numbers, packed
	}
	return f
}

func sizeOf(t reflect.Type) int64 {
	return int64(t.Size()) //nolint:gosec // No type has 2^63 bytes.
}
