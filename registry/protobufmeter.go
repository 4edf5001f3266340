// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/binary"
	"fmt"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// protobufMeter counts the objects of a list in protobuf while it comes in. A message of Kubernetes
// begins with four bytes, and then has the object in field 2 of another message; a list has its items
// in field 2, too. What is inside of an item cannot be counted without knowing its type.
type protobufMeter struct {
	maxItems int64

	at     int64 // bytes read so far
	skip   int64 // the next ones do not matter
	within int64 // where the object ends that is being looked into, 0 outside of one
	number varint
	field  uint64 // whose value comes next; 0 if that is the next field
	wire   uint64
	items  int64
}

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

const (
	protobufPrefix = 4
	objectField    = 2 // of the outer message
	itemsField     = 2 // of a list
)

var errProtobuf = fmt.Errorf("the protobuf of an answer cannot be understood: %w", kubeconfig.ErrNotKubernetes)

func (m *protobufMeter) read(piece []byte) error {
	if m.at == 0 {
		m.skip = protobufPrefix
	}
	for len(piece) > 0 {
		if m.skip > 0 {
			n := min(m.skip, int64(len(piece)))
			piece, m.skip, m.at = piece[n:], m.skip-n, m.at+n
			continue
		}
		if m.at >= m.within {
			m.within = 0
		}
		done, ok := m.number.add(piece[0])
		piece, m.at = piece[1:], m.at+1
		if !ok {
			return errProtobuf
		}
		if !done {
			continue
		}
		if err := m.take(m.number.value); err != nil {
			return err
		}
		m.number = varint{}
	}
	return nil
}

// take takes note of a number: the tag of a field, its value, or the length of that.
func (m *protobufMeter) take(n uint64) error {
	if m.field != 0 {
		field := m.field
		m.field = 0
		if m.wire == wireBytes {
			return m.enter(field, n)
		}
		return nil
	}
	m.field, m.wire = n>>3, n&7
	switch m.wire {
	case wireVarint, wireBytes:
		if m.field == 0 {
			return errProtobuf
		}
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

// enter looks into the object, and counts and skips what is in it.
func (m *protobufMeter) enter(field, length uint64) error {
	if length > maxListBody {
		return errBodyTooLarge
	}
	if m.within == 0 && field == objectField {
		m.within = m.at + int64(length)
		return nil
	}
	m.skip = int64(length)
	if m.within == 0 || field != itemsField {
		return nil
	}
	if m.items++; m.items > m.maxItems {
		return fmt.Errorf("%w: it has too many objects in it", errBodyTooLarge)
	}
	return nil
}

// varint is a number that comes in byte by byte.
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

// eventMeter bounds the events of a watch in protobuf. Each begins with its length.
type eventMeter struct {
	left   int64 // of the event that has begun
	prefix []byte
}

func (m *eventMeter) read(piece []byte) error {
	for len(piece) > 0 {
		if m.left > 0 {
			n := min(m.left, int64(len(piece)))
			piece, m.left = piece[n:], m.left-n
			continue
		}
		m.prefix = append(m.prefix, piece[0])
		piece = piece[1:]
		if len(m.prefix) < 4 {
			continue
		}
		m.left = int64(binary.BigEndian.Uint32(m.prefix))
		m.prefix = m.prefix[:0]
		if m.left > maxEvent {
			return fmt.Errorf("%w: an event of a watch is too large", errBodyTooLarge)
		}
	}
	return nil
}
