// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"hash/maphash"
	"reflect"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Types packs the objects of client-go's scheme, and PartialObjectMetadata. It is safe for concurrent use, and one is enough
// for all caches of a process.
type Types struct {
	packable map[reflect.Type]bool // structs
	kinds    sync.Map              // *kind by the type of a pointer to the struct; nil if it is not packed
	buffers  sync.Pool             // of *[]byte
	bodies   bodies
}

// kind is a type of objects.
type kind struct {
	types  *Types
	object reflect.Type // the struct

	typeMetaIndex int // of the field of the struct
	// typeMeta is the last one that an object had. The objects of a kind have the same, or an empty one.
	typeMeta atomic.Pointer[metav1.TypeMeta]
}

// message is an object with generated methods.
type message interface {
	runtime.Object
	metav1.Object
	Size() int
	MarshalToSizedBuffer(buffer []byte) (int, error)
	Unmarshal(message []byte) error
}

// NewTypes returns a Types.
func NewTypes() *Types {
	t := &Types{packable: map[reflect.Type]bool{reflect.TypeFor[metav1.PartialObjectMetadata](): true}}
	t.bodies.seed = maphash.MakeSeed()
	t.buffers.New = func() any { return new([]byte) }
	for _, of := range scheme.Scheme.AllKnownTypes() {
		t.packable[of] = true
	}
	return t
}

// kindOf returns the kind of an object; nil if it is not packed.
func (t *Types) kindOf(obj any) *kind {
	of := reflect.TypeOf(obj)
	known, ok := t.kinds.Load(of)
	if !ok {
		known, _ = t.kinds.LoadOrStore(of, t.newKind(obj))
	}
	one, _ := known.(*kind)
	return one
}

func (t *Types) newKind(obj any) *kind {
	of := reflect.TypeOf(obj)
	if _, ok := obj.(message); !ok || of.Kind() != reflect.Pointer || !t.packable[of.Elem()] {
		return nil
	}
	field, ok := of.Elem().FieldByName("TypeMeta")
	if !ok {
		return nil
	}
	return &kind{types: t, object: of.Elem(), typeMetaIndex: field.Index[0]}
}

// Pack returns an *Object with the content of an object, or the object itself if it cannot be packed. It does not keep the
// object that it packs.
func (t *Types) Pack(obj any) any {
	k := t.kindOf(obj)
	if k == nil {
		return obj
	}
	one, _ := obj.(message)
	buffer := t.buffer(one.Size())
	defer t.buffers.Put(buffer)
	n, err := one.MarshalToSizedBuffer(*buffer)
	if err != nil {
		return obj
	}
	encoded := (*buffer)[len(*buffer)-n:]
	packed := &Object{kind: k, typeMeta: k.shared(obj)}
	metadata, body := split(encoded)
	if shared, ok := t.bodies.shared(body); ok {
		packed.body, encoded = shared, metadata
	}
	packed.message = append(make([]byte, 0, len(encoded)), encoded...)
	return packed
}

// Buffers up to this size are used again.
const maxBuffer = 64 << 10

// buffer returns a buffer of a size.
func (t *Types) buffer(size int) *[]byte {
	buffer, _ := t.buffers.Get().(*[]byte)
	if cap(*buffer) < size || cap(*buffer) > maxBuffer {
		*buffer = make([]byte, size)
	}
	*buffer = (*buffer)[:size]
	return buffer
}

// split returns the metadata, which is the first field of the message of every object, and the rest of a message.
func split(message []byte) (metadata, body []byte) {
	number, _, size := protowire.ConsumeField(message)
	if size < 0 || number != fieldMetadata {
		return message, nil
	}
	return message[:size], message[size:]
}

// shared returns the TypeMeta of an object; nil if it is empty.
func (k *kind) shared(obj any) *metav1.TypeMeta {
	now, _ := reflect.ValueOf(obj).Elem().Field(k.typeMetaIndex).Addr().Interface().(*metav1.TypeMeta)
	if now == nil || *now == (metav1.TypeMeta{}) {
		return nil
	}
	if last := k.typeMeta.Load(); last != nil && *last == *now {
		return last
	}
	one := *now
	k.typeMeta.Store(&one)
	return &one
}
