// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"bytes"
	"fmt"
)

// maxNesting is how deep the values of an answer may be nested. An object of Kubernetes is nested some
// dozen times, that of a CRD a hundred.
const maxNesting = 1000

// What JSON turns into, in bytes of memory: as maps, as client-go decodes it without types, and an
// object in a list as one of the larger structures of Kubernetes, of which a list is made of.
const (
	costOfValue   = 32  // each one that follows another in a list
	costOfField   = 128 // each one that follows another in an object
	costOfObject  = 48
	costOfFields  = 256  // of an object that has any
	costOfElement = 1536 // an object in a list, besides
)

// jsonMeter measures JSON while it comes in, without understanding it: a body that is none passes,
// for the decoder to refuse. It takes about a fifth of the time that decoding takes.
type jsonMeter struct {
	bill
	stream bool // the body is one event after the other, each of which may be so large

	size      int64 // of the value that has begun, with the space before it
	depth     int
	lists     [maxNesting/64 + 1]uint64 // at which depths there is a list, as bits
	opened    bool                      // an object, which has no field yet
	number    number                    // what has come in of a string, or of a value that is none
	quoted    bool                      // inside a string
	backslash bool                      // an odd number of them has just come
}

func (m *jsonMeter) Read(piece []byte) error {
	for i := 0; i < len(piece); {
		n, err := m.step(piece[i:])
		if err != nil {
			return err
		}
		i += n
	}
	return m.checkSize()
}

// step takes in what comes next, and returns how many bytes that were.
func (m *jsonMeter) step(piece []byte) (n int, err error) {
	n = 1
	if m.quoted {
		n, err = m.skip(piece)
		m.size += int64(n)
		return n, err
	}
	switch c := piece[0]; c {
	case '"', '{', '}', '[', ']', ',', ':': // what values end with, and begin with
		if err := m.endNumber(); err != nil {
			return 0, err
		}
		m.size++
		return n, m.punctuate(c)
	default:
		m.number.take(c)
		m.size++
		return n, nil
	}
}

func (m *jsonMeter) punctuate(c byte) (err error) {
	switch c {
	case '"':
		m.quoted = true
		if m.opened {
			m.opened = false
			err = m.charge(costOfFields)
		}
	case ',':
		cost := int64(costOfField)
		if m.isList(m.depth) {
			cost = costOfValue
		}
		err = m.charge(cost)
	case '{', '[':
		err = m.open(c == '[')
	case '}', ']':
		err = m.close()
	}
	return err
}

// endNumber refuses what has come in if it is a number that is huge.
func (m *jsonMeter) endNumber() error {
	if !m.number.other && m.number.mantissa > 0 && m.number.isHuge() {
		return errHuge
	}
	m.number.other, m.number.mantissa, m.number.hasE = false, 0, false
	return nil
}

// skip returns the length of what belongs to a string, with the quote that ends it.
func (m *jsonMeter) skip(piece []byte) (int, error) {
	end := bytes.IndexByte(piece, '"')
	text := piece
	if end >= 0 {
		text = piece[:end]
	}
	before := bytes.TrimRight(text, `\`)
	odd := (len(text)-len(before))%2 == 1
	if len(before) == 0 {
		odd = odd != m.backslash // they go on from the piece before
	}
	if !m.number.other && len(text) > 0 {
		m.number.add(text)
	}
	if end < 0 {
		m.backslash = odd
		return len(piece), nil
	}
	m.quoted, m.backslash = odd, false // a quote behind a backslash does not end the string
	if odd {
		m.number.other = true
		return end + 1, nil
	}
	return end + 1, m.endNumber()
}

// open notes the beginning of an object or a list.
func (m *jsonMeter) open(list bool) error {
	cost := int64(costOfObject)
	if !list && m.depth > 0 && m.isList(m.depth) {
		cost += costOfElement
	}
	m.opened = !list
	m.depth++
	if m.depth > maxNesting {
		return fmt.Errorf("%w: it is nested too deeply", ErrTooLarge)
	}
	bit := uint64(1) << (m.depth % 64)
	m.lists[m.depth/64] &^= bit
	if list {
		m.lists[m.depth/64] |= bit
	}
	return m.charge(cost)
}

func (m *jsonMeter) isList(depth int) bool { return m.lists[depth/64]>>(depth%64)&1 == 1 }

// close notes the end of an object or a list. With that of the outermost one the next event begins.
func (m *jsonMeter) close() error {
	m.opened = false
	m.depth = max(m.depth-1, 0)
	if m.depth > 0 || !m.stream {
		return nil
	}
	err := m.checkSize()
	m.size, m.sum = 0, 0
	return err
}

func (m *jsonMeter) checkSize() error {
	if m.stream && m.size > maxEvent {
		return fmt.Errorf("%w: an event of a watch does not end", ErrTooLarge)
	}
	return nil
}
