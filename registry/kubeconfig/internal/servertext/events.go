// SPDX-License-Identifier: Apache-2.0

package servertext

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// errEvent ends a watch.
var errEvent = fmt.Errorf("the server sends an event that is not a watch event: %w", ErrNotKubernetes)

const (
	// maxHeld is how much of an event is held back, while its type is not known yet, or if it is an error.
	maxHeld = 2 << 20
	// maxSpace is the number of bytes of space before an event. It is dropped, so that no limit on what passes counts it.
	// An API server sends one newline.
	maxSpace = 64 << 10
)

// eventBody is the body of a watch. Events with objects pass unchanged. Events with errors get another Status, and data
// that is not an event ends the watch with an error.
type eventBody struct {
	io.ReadCloser
	filter interface {
		// read reads a piece and returns the data that passes, which is valid until the next call.
		read(piece []byte) ([]byte, error)
	}
	ready []byte // passed data that was not read yet
	err   error  // after that
}

func newEventBody(body io.ReadCloser, isProtobuf bool, judge eventJudge) *eventBody {
	if isProtobuf {
		return &eventBody{ReadCloser: body, filter: &protobufEvents{judge: judge, types: verdict{own: judge.own}}}
	}
	return &eventBody{ReadCloser: body, filter: newJSONEvents(judge)}
}

// Read reads the data that passes.
func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.ready) == 0 && b.err == nil && len(p) > 0 {
		n, err := b.ReadCloser.Read(p)
		b.ready, b.err = b.filter.read(p[:n])
		if b.err == nil {
			b.err = err
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	if len(b.ready) > 0 {
		return n, nil
	}
	return n, b.err
}

// eventJudge decides whether an event passes, is replaced or ends the watch.
type eventJudge struct {
	request *http.Request
	redact  func(text string) string
	own     func(text string) bool
}

// isPlain reports whether an event of a type has an object in it.
func isPlain(kind string) bool {
	switch watch.EventType(kind) {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		return true
	}
	return false
}

// status returns the parts of the Status of an event that are kept.
func (j eventJudge) status(form string, object []byte) metav1.Status {
	code := http.StatusInternalServerError
	if said, err := decodeStatus(form, object); err == nil && said.Code >= http.StatusBadRequest && said.Code < 600 {
		code = int(said.Code)
	}
	return statusOf(j.request, code, form, object).hide(j.redact)
}

// jsonEvents passes events in JSON.
type jsonEvents struct {
	judge   eventJudge
	outline outline
	types   verdict
	kind    string // the type of the event; empty if it is not known yet
	space   int    // bytes before the event
	held    []byte // of the event
	passed  []byte
}

func newJSONEvents(judge eventJudge) *jsonEvents {
	e := &jsonEvents{judge: judge, types: verdict{own: judge.own}}
	e.outline.found = e.found
	return e
}

func (e *jsonEvents) found(m member, text string) error {
	switch {
	case m.name == "type":
		if e.kind != "" || !isPlain(text) && text != string(watch.Error) {
			return errEvent
		}
		e.kind = text
	case m.depth == 2 && m.name == "kind":
		return e.types.typed(metav1.TypeMeta{Kind: text})
	case m.depth == 2 && m.name == "apiVersion":
		return e.types.typed(metav1.TypeMeta{APIVersion: text})
	}
	return nil
}

func (e *jsonEvents) read(piece []byte) ([]byte, error) {
	e.passed = e.passed[:0]
	for len(piece) > 0 {
		if e.outline.depth == 0 && e.kind == "" && len(e.held) == 0 {
			event := bytes.TrimLeft(piece, " \t\r\n")
			e.space += len(piece) - len(event)
			if e.space > maxSpace || len(event) > 0 && event[0] != '{' {
				return e.passed, errEvent
			}
			piece = event
		}
		complete := len(e.passed)
		n, ended, err := e.outline.read(piece)
		if err == nil {
			err = e.take(piece[:n], ended)
		}
		if err != nil {
			return e.passed[:complete], err
		}
		piece = piece[n:]
	}
	return e.passed, nil
}

// take passes a piece of an event on, or holds it back.
func (e *jsonEvents) take(piece []byte, ended bool) error {
	if isPlain(e.kind) {
		e.passed = append(append(e.passed, e.held...), piece...)
		e.held = nil
	} else if e.held = append(e.held, piece...); len(e.held) > maxHeld {
		return errEvent
	}
	if !ended {
		return nil
	}
	if e.kind == string(watch.Error) {
		var event struct{ Object json.RawMessage }
		_ = json.Unmarshal(e.held, &event) // Data that is not a Status becomes an empty Status.
		rewritten, err := json.Marshal(map[string]any{"type": watch.Error, "object": e.judge.status(runtime.ContentTypeJSON, event.Object)})
		if err != nil {
			return errEvent
		}
		e.passed = append(append(e.passed, rewritten...), '\n')
	} else if e.kind == "" {
		return errEvent
	}
	e.kind, e.held, e.space = "", nil, 0
	return nil
}

// protobufEvents passes events in protobuf, each after its length.
type protobufEvents struct {
	judge  eventJudge
	types  verdict
	left   uint64 // bytes of the object that still come and pass
	tail   uint64 // bytes of the event after those, which are held until they are judged
	held   []byte // of the event, with its length
	passed []byte
}

// lengthSize is the size of the length of an event.
const lengthSize = 4

func (e *protobufEvents) read(piece []byte) ([]byte, error) {
	e.passed = e.passed[:0]
	for len(piece) > 0 {
		if e.left == 0 {
			e.held, piece = append(e.held, piece[0]), piece[1:]
			if err := e.look(); err != nil {
				return e.passed, err
			}
			continue
		}
		n := min(uint64(len(piece)), e.left)
		e.passed, piece = append(e.passed, piece[:n]...), piece[n:]
		e.left -= n
	}
	return e.passed, nil
}

// longestHead is how much of an event it takes to see that it has an object and nothing else: its type, and the kind
// and the apiVersion of the object. An event with a longer head is held until it is complete.
const longestHead = 3 * maxWord

// look decides whether the event that is held passes.
func (e *protobufEvents) look() error {
	if e.tail > 0 {
		return e.lookAtTail()
	}
	if len(e.held) < lengthSize {
		return nil
	}
	length, event := uint64(binary.BigEndian.Uint32(e.held)), e.held[lengthSize:]
	if len(event) <= longestHead {
		if passes, err := e.begin(event, length); passes || err != nil {
			return err
		}
	}
	switch {
	case uint64(len(event)) >= length:
		return e.rewrite(event)
	case len(event) > maxHeld:
		return errEvent
	}
	return nil
}

// begin passes the beginning of an event, up to the content of its object, if the event has one object and nothing else.
func (e *protobufEvents) begin(event []byte, length uint64) (passes bool, err error) {
	kind, rest, found := cutField(event, 1)
	if !found || !isPlain(string(kind)) {
		return false, nil
	}
	for _, number := range []byte{2, 1} { // the object, and its bytes
		var size uint64
		rest, size, found = openField(rest, number)
		if !found || uint64(len(event)-len(rest))+size != length {
			return false, nil
		}
	}
	rest, found = bytes.CutPrefix(rest, []byte(protobufPrefix))
	types, rest, isTyped := cutField(rest, 1)
	rest, size, isOpen := openField(rest, 2)
	end := uint64(len(event)) + size
	var of runtime.TypeMeta
	if !found || !isTyped || !isOpen || len(rest) > 0 || end > length || length-end > maxRest {
		return false, nil
	}
	if of.Unmarshal(types) != nil {
		return false, errEvent
	}
	if err := e.types.typed(metav1.TypeMeta{Kind: of.Kind, APIVersion: of.APIVersion}); err != nil {
		return false, err
	}
	e.passed = append(e.passed, e.held...)
	e.left, e.tail, e.held = size, length-end, e.held[:0]
	return true, nil
}

// lookAtTail passes the data after the content of an object, if it does not affect the type of the object.
func (e *protobufEvents) lookAtTail() error {
	if uint64(len(e.held)) < e.tail {
		return nil
	}
	var rest runtime.Unknown
	if rest.Unmarshal(e.held) != nil || rest.TypeMeta != (runtime.TypeMeta{}) || len(rest.Raw) > 0 {
		return errEvent
	}
	e.passed = append(e.passed, e.held...)
	e.tail, e.held = 0, e.held[:0]
	return nil
}

// openField returns the data after the length of the first field of a message in protobuf, and the length.
func openField(message []byte, number byte) (content []byte, size uint64, found bool) {
	if len(message) < 2 || message[0] != number<<3|2 {
		return nil, 0, false
	}
	size, n := binary.Uvarint(message[1:])
	return message[1+max(n, 0):], size, n > 0 && size < 1<<32
}

// typed returns an error if the kind or the apiVersion of an encoded object is not a valid name.
func (e *protobufEvents) typed(object []byte) error {
	var of runtime.Unknown
	raw, found := bytes.CutPrefix(object, []byte(protobufPrefix))
	if !found || of.Unmarshal(raw) != nil {
		return errEvent
	}
	return e.types.typed(metav1.TypeMeta{Kind: of.Kind, APIVersion: of.APIVersion})
}

// rewrite passes an event that is complete and was held.
func (e *protobufEvents) rewrite(event []byte) error {
	var said metav1.WatchEvent
	if said.Unmarshal(event) != nil {
		return errEvent
	}
	if said.Type == string(watch.Error) {
		status := e.judge.status(runtime.ContentTypeProtobuf, said.Object.Raw)
		raw, err := encodeStatus(status)
		if err != nil {
			return errEvent
		}
		said.Object = runtime.RawExtension{Raw: raw}
	} else if !isPlain(said.Type) {
		return errEvent
	} else if err := e.typed(said.Object.Raw); err != nil {
		return err
	}
	rewritten, err := said.Marshal()
	if err != nil {
		return errEvent
	}
	e.passed = binary.BigEndian.AppendUint32(e.passed, uint32(len(rewritten))) //nolint:gosec // It is at most maxHeld.
	e.passed, e.held = append(e.passed, rewritten...), nil
	return nil
}

// encodeStatus encodes a Status in protobuf.
func encodeStatus(status metav1.Status) ([]byte, error) {
	raw, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	wrapped := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: statusKind, APIVersion: "v1"}, Raw: raw}
	encoded, err := wrapped.Marshal()
	return append([]byte(protobufPrefix), encoded...), err
}
