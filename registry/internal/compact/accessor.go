// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Numbers of fields: the metadata of an object, and fields of the metadata.
const (
	fieldMetadata        protowire.Number = 1
	fieldName            protowire.Number = 1
	fieldNamespace       protowire.Number = 3
	fieldResourceVersion protowire.Number = 6
	fieldLabels          protowire.Number = 11
	fieldKey             protowire.Number = 1 // of an entry of labels
	fieldValue           protowire.Number = 2
)

// GetObjectMeta returns the metadata. Its setters panic, because an Object never changes. A cache needs the name, the
// namespace, the labels and the resource version of each object, so these are read from the message; the other getters decode
// all metadata.
func (o *Object) GetObjectMeta() metav1.Object { return (*metadata)(o) }

// metadata is the metadata of an Object.
type metadata Object

// bytes returns the message of the metadata.
func (m *metadata) bytes() []byte {
	number, wire, tag := protowire.ConsumeTag(m.message)
	if tag < 0 || number != fieldMetadata || wire != protowire.BytesType {
		return nil
	}
	content, _ := protowire.ConsumeBytes(m.message[tag:])
	return content
}

// each calls f with the content of each field of a message that is no number, until f returns false.
func each(message []byte, f func(number protowire.Number, content []byte) bool) {
	for len(message) > 0 {
		number, wire, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, wire, message[tag:])
		if size < 0 {
			return
		}
		if wire == protowire.BytesType {
			if content, _ := protowire.ConsumeBytes(message[tag:]); !f(number, content) {
				return
			}
		}
		message = message[tag+size:]
	}
}

// text returns a field.
func (m *metadata) text(field protowire.Number) (text string) {
	each(m.bytes(), func(number protowire.Number, content []byte) bool {
		if number == field {
			text = string(content)
		}
		return number != field
	})
	return text
}

// decoded returns all metadata.
func (m *metadata) decoded() *metav1.ObjectMeta {
	all := &metav1.ObjectMeta{}
	_ = all.Unmarshal(m.bytes()) // It was encoded in this process.
	return all
}

func (m *metadata) GetName() string      { return m.text(fieldName) }
func (m *metadata) GetNamespace() string { return m.text(fieldNamespace) }

// GetResourceVersion is called by the store of client-go with each update.
func (m *metadata) GetResourceVersion() string { return m.text(fieldResourceVersion) }

func (m *metadata) GetLabels() map[string]string {
	var labels map[string]string
	each(m.bytes(), func(number protowire.Number, content []byte) bool {
		if number != fieldLabels {
			return number < fieldLabels // fields come in the order of their numbers
		}
		var key, value string
		each(content, func(number protowire.Number, content []byte) bool {
			switch number {
			case fieldKey:
				key = string(content)
			case fieldValue:
				value = string(content)
			}
			return true
		})
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
		return true
	})
	return labels
}

func (m *metadata) GetGenerateName() string            { return m.decoded().GenerateName }
func (m *metadata) GetUID() types.UID                  { return m.decoded().UID }
func (m *metadata) GetGeneration() int64               { return m.decoded().Generation }
func (m *metadata) GetSelfLink() string                { return m.decoded().SelfLink } //nolint:staticcheck // It is deprecated, and the interface has it.
func (m *metadata) GetCreationTimestamp() metav1.Time  { return m.decoded().CreationTimestamp }
func (m *metadata) GetDeletionTimestamp() *metav1.Time { return m.decoded().DeletionTimestamp }
func (m *metadata) GetDeletionGracePeriodSeconds() *int64 {
	return m.decoded().DeletionGracePeriodSeconds
}
func (m *metadata) GetAnnotations() map[string]string           { return m.decoded().Annotations }
func (m *metadata) GetFinalizers() []string                     { return m.decoded().Finalizers }
func (m *metadata) GetOwnerReferences() []metav1.OwnerReference { return m.decoded().OwnerReferences }

func (m *metadata) GetManagedFields() []metav1.ManagedFieldsEntry { return m.decoded().ManagedFields }

var errReadOnly = errors.New("an object of a cache is read-only: change a copy of it")

func (*metadata) SetName(string)                               { panic(errReadOnly) }
func (*metadata) SetNamespace(string)                          { panic(errReadOnly) }
func (*metadata) SetLabels(map[string]string)                  { panic(errReadOnly) }
func (*metadata) SetGenerateName(string)                       { panic(errReadOnly) }
func (*metadata) SetUID(types.UID)                             { panic(errReadOnly) }
func (*metadata) SetResourceVersion(string)                    { panic(errReadOnly) }
func (*metadata) SetGeneration(int64)                          { panic(errReadOnly) }
func (*metadata) SetSelfLink(string)                           { panic(errReadOnly) }
func (*metadata) SetCreationTimestamp(metav1.Time)             { panic(errReadOnly) }
func (*metadata) SetDeletionTimestamp(*metav1.Time)            { panic(errReadOnly) }
func (*metadata) SetDeletionGracePeriodSeconds(*int64)         { panic(errReadOnly) }
func (*metadata) SetAnnotations(map[string]string)             { panic(errReadOnly) }
func (*metadata) SetFinalizers([]string)                       { panic(errReadOnly) }
func (*metadata) SetOwnerReferences([]metav1.OwnerReference)   { panic(errReadOnly) }
func (*metadata) SetManagedFields([]metav1.ManagedFieldsEntry) { panic(errReadOnly) }
