// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// protobufMeter follows protobuf through the Go types that it will be decoded to, since two bytes may be an empty
// string or a container. A response is four bytes and a runtime.Unknown: the kind, then the object. Each event of a
// watch is its length and such a response.
type protobufMeter struct {
	bill
	shapes *Schemas
	stream bool

	at       int64     // bytes read so far
	skip     int64     // the next ones do not matter
	within   []message // outermost first; each ends in the one before
	number   varint
	field    uint64 // whose value comes next; 0 if that is the next field
	wire     uint64
	prefix   []byte  // the length of the event that begins
	text     *[]byte // where the next bytes go, of which there are left
	left     int64
	kind     [2][]byte // apiVersion and kind of the object that comes next
	quantity []byte    // that comes in
	inObject bool
}

type message struct {
	shape *messageType
	end   int64
}

const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

const (
	protobufPrefix = 4       // bytes before an object
	maxKind        = 256     // bytes of an apiVersion or kind
	maxQuantity    = 64      // bytes of a resource.Quantity
	endless        = 1 << 40 // bytes: the length of the input is bounded elsewhere
	// maxField is the largest number of a field. Decoders cut it to 32 bits, and would see another field than the
	// meter.
	maxField = 1<<29 - 1
)

var errProtobuf = fmt.Errorf("the protobuf of a response cannot be parsed: %w", kubeconfig.ErrNotKubernetes)

func newProtobufMeter(b bill, s *Schemas, stream bool) *protobufMeter {
	m := &protobufMeter{bill: b, shapes: s, stream: stream}
	if !stream {
		m.skip = protobufPrefix
		m.within = append(m.within, message{s.envelope, endless})
	}
	return m
}

func (m *protobufMeter) Read(piece []byte) error {
	for len(piece) > 0 {
		n, err := m.step(piece)
		if err != nil {
			return err
		}
		piece, m.at = piece[n:], m.at+int64(n)
		if err := m.pop(); err != nil {
			return err
		}
	}
	return nil
}

// step returns the number of bytes of the next field, or a part of it.
func (m *protobufMeter) step(piece []byte) (int, error) {
	switch {
	case m.skip > 0:
		n := min(m.skip, int64(len(piece)))
		m.skip -= n
		return int(n), nil
	case m.left > 0:
		n := min(m.left, int64(len(piece)))
		*m.text = append(*m.text, piece[:n]...)
		m.left -= n
		return int(n), m.checkQuantity()
	case len(m.within) == 0:
		return 1, m.beginEvent(piece[0])
	}
	done, ok := m.number.add(piece[0])
	if !ok {
		return 0, errProtobuf
	}
	if !done {
		return 1, nil
	}
	n := m.number.value
	m.number = varint{}
	return 1, m.take(n)
}

func (m *protobufMeter) checkQuantity() error {
	if m.left > 0 || m.text != &m.quantity {
		return nil
	}
	var n number
	n.add(m.quantity)
	if n.isHuge() {
		return errHuge
	}
	return nil
}

func (m *protobufMeter) beginEvent(b byte) error {
	if !m.stream {
		return errProtobuf // nothing follows a response
	}
	m.prefix = append(m.prefix, b)
	if len(m.prefix) < protobufPrefix {
		return nil
	}
	length := int64(0)
	for _, b := range m.prefix {
		length = length<<8 | int64(b)
	}
	m.prefix, m.sum, m.inObject, m.kind = m.prefix[:0], 0, false, [2][]byte{}
	if length > maxEvent {
		return fmt.Errorf("%w: an event of a watch is too large", ErrTooLarge)
	}
	m.within = append(m.within, message{m.shapes.watchEvent, m.at + 1 + length})
	return nil
}

// take gets the tag of a field, its value, or the length of that.
func (m *protobufMeter) take(n uint64) error {
	if m.field == 0 {
		return m.begin(n)
	}
	number := m.field
	m.field = 0
	field := m.within[len(m.within)-1].shape.fields[number]
	if m.wire == wireVarint {
		return m.charge(field.cost)
	}
	if n > endless {
		return ErrTooLarge
	}
	return m.enter(field, int64(n))
}

func (m *protobufMeter) begin(tag uint64) error {
	m.field, m.wire = tag>>3, tag&7
	if m.field == 0 || m.field > maxField {
		return errProtobuf
	}
	switch m.wire {
	case wireVarint, wireBytes:
		return nil
	case wireFixed64:
		m.skip = 8
	case wireFixed32:
		m.skip = 4
	default:
		return errProtobuf
	}
	m.field = 0
	return nil
}

func (m *protobufMeter) enter(field fieldType, length int64) error {
	at := m.at + 1 // the byte that is being taken
	if at+length > m.within[len(m.within)-1].end {
		return errProtobuf
	}
	cost := field.cost
	switch {
	case field.role != roleValue:
		return m.enterEnvelope(field, at, length)
	case field.message != nil:
		if len(m.within) > maxNesting {
			return fmt.Errorf("%w: it is nested too deeply", ErrTooLarge)
		}
		m.within = append(m.within, message{field.message, at + length})
	default:
		cost += length * max(field.perByte, 1)
		m.skip = length
	}
	return m.charge(cost)
}

// enterEnvelope is for the runtime.Unknown around an object.
func (m *protobufMeter) enterEnvelope(field fieldType, at, length int64) error {
	switch field.role {
	case roleAPIVersion, roleKind:
		if length > maxKind || m.inObject {
			return errProtobuf
		}
		m.text, m.left = &m.kind[field.role-roleAPIVersion], length
		*m.text = (*m.text)[:0]
	case roleQuantity:
		if length > maxQuantity {
			return errHuge
		}
		m.quantity = m.quantity[:0]
		m.text, m.left = &m.quantity, length
		return m.charge(length)
	case roleAnswer:
		if length < protobufPrefix {
			return errProtobuf
		}
		m.skip = protobufPrefix
		m.within = append(m.within, message{m.shapes.envelope, at + length})
	case roleObject:
		m.inObject = true
		shape := m.shapes.ofKind(schema.FromAPIVersionAndKind(string(m.kind[0]), string(m.kind[1])))
		if shape == nil {
			return fmt.Errorf("%w: it has an object of a kind that was not requested", errProtobuf)
		}
		m.within = append(m.within, message{shape, at + length})
		return m.charge(shape.size)
	}
	return nil
}

func (m *protobufMeter) pop() error {
	for m.skip == 0 && m.left == 0 && len(m.within) > 0 {
		last := len(m.within) - 1
		if m.at < m.within[last].end {
			return nil
		}
		if m.at > m.within[last].end || m.field != 0 || m.number.shift != 0 {
			return errProtobuf // it ends in the middle of a field
		}
		m.within = m.within[:last]
	}
	return nil
}

type varint struct {
	value uint64
	shift uint
}

func (v *varint) add(b byte) (done, ok bool) {
	if v.shift > 63 {
		return false, false
	}
	v.value |= uint64(b&0x7f) << v.shift
	v.shift += 7
	return b&0x80 == 0, true
}
