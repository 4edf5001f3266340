// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// protobufEvents judges the beginning of each event, after its length, and a few bytes at its end. It passes without a
// copy.
type protobufEvents struct {
	judge eventJudge
	types verdict
	left  uint64 // bytes of the object that still come and pass
	tail  uint64 // bytes of the event after those, which are held until they are judged
	// held is less than smallRead, or the beginning of an event that is judged when it is complete.
	held  []byte
	whole uint64 // the size of that event, with its length; 0 for none
}

const (
	lengthSize = 4
	// longestHead shows that an event has an object and nothing else: its type, and the object's kind and apiVersion.
	// One with a longer head is held until it is complete.
	longestHead = 3 * maxWord
)

func (e *protobufEvents) begin(piece []byte) int {
	if e.whole > 0 {
		return 0
	}
	n := copy(piece, e.held)
	e.held = e.held[:0]
	return n
}

func (e *protobufEvents) read(piece []byte) ([]byte, error) {
	var before []byte // passes before the piece; nil unless an event was rewritten
	at := 0           // the data of the piece before it passes
	for at < len(piece) {
		if e.whole > 0 {
			before = append(before, piece[:at]...)
			rewritten, rest, err := e.complete(piece[at:])
			before, piece, at = append(before, rewritten...), rest, 0
			if err != nil {
				return before, err
			}
			continue
		}
		n, err := e.look(piece[at:])
		if err != nil {
			return passed(before, piece[:at]), err
		}
		if n == 0 && e.whole == 0 {
			e.held = append(e.held, piece[at:]...)
			break
		}
		at += n
	}
	return passed(before, piece[:at]), nil
}

// passed copies the piece only if there is data before it.
func passed(before, piece []byte) []byte {
	if len(before) == 0 {
		return piece
	}
	return append(before, piece...)
}

// look returns how many bytes pass, 0 if that needs more data. It sets whole at the beginning of an event that does not
// pass as it is.
func (e *protobufEvents) look(data []byte) (int, error) {
	size := uint64(len(data))
	switch {
	case e.left > 0:
		n := min(size, e.left)
		e.left -= n
		return int(n), nil //nolint:gosec // It is at most the length of the data.
	case e.tail > 0:
		return e.lookAtTail(data)
	case size < lengthSize:
		return 0, nil
	}
	length, event := uint64(binary.BigEndian.Uint32(data)), data[lengthSize:]
	head := event[:min(uint64(len(event)), length, longestHead)]
	n, err := e.lookAtHead(head, length)
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		return lengthSize + n, nil
	case uint64(len(head)) < min(length, longestHead):
		return 0, nil
	case length > maxHeld:
		return 0, errEvent
	}
	e.whole = lengthSize + length
	return 0, nil
}

// lookAtHead returns the size up to the object's content, if the event has one object and nothing else.
func (e *protobufEvents) lookAtHead(event []byte, length uint64) (int, error) {
	kind, rest, found := cutField(event, 1)
	if !found || !isPlain(string(kind)) {
		return 0, nil
	}
	for _, number := range []byte{2, 1} { // the object, and its bytes
		var size uint64
		rest, size, found = openField(rest, number)
		if !found || uint64(len(event)-len(rest))+size != length {
			return 0, nil
		}
	}
	rest, found = bytes.CutPrefix(rest, []byte(protobufPrefix))
	types, rest, isTyped := cutField(rest, 1)
	rest, size, isOpen := openField(rest, 2)
	head := len(event) - len(rest)
	end := uint64(head) + size //nolint:gosec // It is not negative.
	var of runtime.TypeMeta
	if !found || !isTyped || !isOpen || end > length || length-end > maxRest {
		return 0, nil
	}
	if of.Unmarshal(types) != nil {
		return 0, errEvent
	}
	if err := e.types.typed(metav1.TypeMeta{Kind: of.Kind, APIVersion: of.APIVersion}); err != nil {
		return 0, err
	}
	e.left, e.tail = size, length-end
	return head, nil
}

// lookAtTail passes data after the object if it does not affect its type.
func (e *protobufEvents) lookAtTail(data []byte) (int, error) {
	if uint64(len(data)) < e.tail {
		return 0, nil
	}
	var rest runtime.Unknown
	n := int(e.tail) //nolint:gosec // It is at most maxRest.
	if rest.Unmarshal(data[:n]) != nil || rest.TypeMeta != (runtime.TypeMeta{}) || len(rest.Raw) > 0 {
		return 0, errEvent
	}
	e.tail = 0
	return n, nil
}

// complete returns what passes for a complete event, and the data after it.
func (e *protobufEvents) complete(data []byte) (rewritten, rest []byte, err error) {
	n := min(uint64(len(data)), e.whole-uint64(len(e.held)))
	e.held, rest = append(e.held, data[:n]...), data[n:]
	if uint64(len(e.held)) < e.whole {
		return nil, rest, nil
	}
	rewritten, err = e.rewrite(e.held[lengthSize:])
	e.held, e.whole = nil, 0
	return rewritten, rest, err
}

func openField(message []byte, number byte) (content []byte, size uint64, found bool) {
	if len(message) < 2 || message[0] != number<<3|2 {
		return nil, 0, false
	}
	size, n := binary.Uvarint(message[1:])
	return message[1+max(n, 0):], size, n > 0 && size < 1<<32
}

func (e *protobufEvents) typed(object []byte) error {
	of, err := open(object)
	if err != nil {
		return errEvent
	}
	return e.types.typed(metav1.TypeMeta{Kind: of.Kind, APIVersion: of.APIVersion})
}

func (e *protobufEvents) rewrite(event []byte) ([]byte, error) {
	var said metav1.WatchEvent
	if said.Unmarshal(event) != nil {
		return nil, errEvent
	}
	if said.Type == string(watch.Error) {
		status := e.judge.status(runtime.ContentTypeProtobuf, said.Object.Raw)
		raw, err := encodeStatus(status)
		if err != nil {
			return nil, errEvent
		}
		said.Object = runtime.RawExtension{Raw: raw}
	} else if !isPlain(said.Type) {
		return nil, errEvent
	} else if err := e.typed(said.Object.Raw); err != nil {
		return nil, err
	}
	rewritten, err := said.Marshal()
	if err != nil {
		return nil, errEvent
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(rewritten))), rewritten...), nil //nolint:gosec // It is at most maxHeld.
}

func encodeStatus(status metav1.Status) ([]byte, error) {
	raw, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	wrapped := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: statusKind, APIVersion: "v1"}, Raw: raw}
	encoded, err := wrapped.Marshal()
	return append([]byte(protobufPrefix), encoded...), err
}
