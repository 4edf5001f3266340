// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// protobufPrefix begins each object in protobuf, except those in events; see
// k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
const protobufPrefix = "k8s\x00"

// ErrBody is the error of a body that cannot be decoded. It quotes nothing.
var ErrBody = errors.New("the body cannot be decoded")

// Message is an object that can be decoded from protobuf.
type Message interface{ Unmarshal(data []byte) error }

// Decode decodes a body of the media type JSON, which is the default, or protobuf. Names are case-sensitive, as for the API
// server. It returns the kind of a body in protobuf, whose objects lack it. The error is ErrBody, also for another type.
func Decode(contentType string, body []byte, into Message) (metav1.TypeMeta, error) {
	form, _, _ := mime.ParseMediaType(contentType)
	switch {
	case form == runtime.ContentTypeProtobuf:
		wrapped, err := open(body)
		if err != nil || into.Unmarshal(wrapped.Raw) != nil {
			return metav1.TypeMeta{}, ErrBody
		}
		return metav1.TypeMeta{Kind: wrapped.Kind, APIVersion: wrapped.APIVersion}, nil
	case form != "" && !strings.HasSuffix(form, "json"), kjson.UnmarshalCaseSensitivePreserveInts(body, into) != nil:
		return metav1.TypeMeta{}, ErrBody
	}
	return metav1.TypeMeta{}, nil
}

// open returns the envelope of an object in protobuf.
func open(body []byte) (runtime.Unknown, error) {
	var wrapped runtime.Unknown
	raw, found := bytes.CutPrefix(body, []byte(protobufPrefix))
	if !found || wrapped.Unmarshal(raw) != nil {
		return wrapped, ErrBody
	}
	return wrapped, nil
}
