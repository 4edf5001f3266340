// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// outline finds a few fields of JSON objects in pieces: at the top, and in the field "object" of watch events. It keeps
// nothing else, and accepts what is not JSON, which the decoder refuses. A second kind, apiVersion or status is an
// error: decoders differ in which counts.
type outline struct {
	named func(m member)                    // is called with each field; may be nil
	found func(m member, text string) error // is called with each text of a field that has one

	depth   int
	objects [3]bool   // at which depth there is an object, and not a list
	members [3]member // the last field at each depth
	isKey   bool      // the next string is a key
	quoted  bool      // inside a string
	escaped bool      // the next character belongs to a backslash
	keeps   bool      // the string is kept
	text    []byte    // of it, as received
	seen    [3]uint8  // which of the names that are unique there were, at each depth
}

// The zero member is any other field.
type member struct {
	depth   int
	name    string
	isText  bool // its text is wanted
	isExact bool // it has the case of the name. Decoders differ in whether they distinguish upper and lower case.
}

// Each of the first names may occur only once in an object.
const (
	namesInObject = 2
	namesOnce     = 3
	namesOfTexts  = 4
)

// maxRaw: each character of maxWord may be an escape of six bytes.
const maxRaw = 6*maxWord + 8

// read stops at the end of the first value at the top.
func (o *outline) read(piece []byte) (n int, ended bool, err error) {
	for n < len(piece) && err == nil {
		if o.quoted {
			var read int
			read, err = o.readString(piece[n:])
			n += read
			continue
		}
		c := piece[n]
		n++
		if o.punctuate(c) {
			return n, true, nil
		}
	}
	return n, false, err
}

// punctuate reports whether c ends the value at the top.
func (o *outline) punctuate(c byte) (ended bool) {
	switch c {
	case '{', '[':
		o.depth++
		if o.depth < len(o.objects) {
			o.objects[o.depth], o.members[o.depth], o.seen[o.depth] = c == '{', member{}, 0
		}
		o.isKey = c == '{'
	case '}', ']':
		o.depth = max(o.depth-1, 0)
		o.isKey = false
		return o.depth == 0
	case ',':
		o.isKey = o.depth < len(o.objects) && o.objects[o.depth]
	case ':':
		o.isKey = false
	case '"':
		o.quoted, o.text = true, o.text[:0]
		o.keeps = o.depth > 0 && o.depth < len(o.objects) && o.objects[o.depth] && (o.isKey || o.members[o.depth].isText)
	}
	return false
}

func (o *outline) readString(piece []byte) (int, error) {
	for i := 0; i < len(piece); {
		if o.escaped {
			o.escaped = false
			i++
			continue
		}
		next := bytes.IndexAny(piece[i:], "\"\\")
		if next < 0 {
			break
		}
		i += next + 1
		if piece[i-1] == '\\' {
			o.escaped = true
			continue
		}
		o.keep(piece[:i-1])
		return i, o.endString()
	}
	o.keep(piece)
	return len(piece), nil
}

func (o *outline) keep(piece []byte) {
	if o.keeps {
		o.text = append(o.text, piece[:min(len(piece), maxRaw-len(o.text))]...)
	}
}

func (o *outline) endString() error {
	o.quoted = false
	if !o.keeps {
		return nil
	}
	text := o.decoded()
	if o.isKey {
		return o.endKey(text)
	}
	return o.found(o.members[o.depth], text)
}

func (o *outline) decoded() string {
	switch {
	case len(o.text) >= maxRaw:
		return strings.Repeat(" ", maxWord+1) // which is no name
	case bytes.IndexByte(o.text, '\\') < 0:
		return string(o.text)
	}
	var text string
	if json.Unmarshal(append(append([]byte{'"'}, o.text...), '"'), &text) != nil {
		return strings.Repeat(" ", maxWord+1)
	}
	return text
}

func (o *outline) endKey(key string) error {
	o.members[o.depth] = member{}
	if len(key) > 16 || o.depth == 2 && o.members[1].name != "object" { // which is longer than any way to write a name
		return nil
	}
	for i, name := range [...]string{"kind", "apiVersion", "status", "type", "object", "message", "reason", "details"} {
		if o.depth == 2 && i == namesInObject {
			return nil
		}
		if !strings.EqualFold(key, name) {
			continue
		}
		bit := uint8(1) << i
		if i < namesOnce && o.seen[o.depth]&bit != 0 {
			return errTwice
		}
		o.seen[o.depth] |= bit
		o.members[o.depth] = member{depth: o.depth, name: name, isText: i < namesOfTexts, isExact: key == name}
		if o.named != nil {
			o.named(o.members[o.depth])
		}
		return nil
	}
	return nil
}
