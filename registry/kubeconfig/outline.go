// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"encoding/json"
	"strings"
)

// outline finds the texts of a few fields of JSON objects that arrive in pieces: those at the top of an object, and
// those of the object in its field "object", as events of watches have one. It keeps nothing else, and takes what is
// no JSON as it comes, for the decoder to refuse.
type outline struct {
	found func(path, text string) error // is called with each text, such as that of "kind" or of "object.kind"

	depth   int
	objects [3]bool   // at which depth there is an object, and not a list
	keys    [3]string // the last key at each depth
	isKey   bool      // the next string is a key
	quoted  bool      // inside a string
	escaped bool      // the next character belongs to a backslash
	keeps   bool      // the string is kept
	text    []byte    // of it, as it came
}

// maxRaw is how much of a string is kept: each character of one of maxWord bytes may be an escape of six.
const maxRaw = 6*maxWord + 8

// read reads a piece up to the end of the first value at the top, and returns how much of it that is and whether the
// value has ended.
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

// punctuate reads a character outside of strings, and reports whether it ends the value at the top.
func (o *outline) punctuate(c byte) (ended bool) {
	switch c {
	case '{', '[':
		o.depth++
		if o.depth < len(o.objects) {
			o.objects[o.depth], o.keys[o.depth] = c == '{', ""
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
		o.keeps = o.depth > 0 && o.depth < len(o.objects) && o.objects[o.depth] && (o.isKey || o.path() != "")
	}
	return false
}

// readString reads the rest of a string, or as much of it as there is.
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
	var text string
	if len(o.text) >= maxRaw || json.Unmarshal(append(append([]byte{'"'}, o.text...), '"'), &text) != nil {
		text = strings.Repeat(" ", maxWord+1) // which is no name
	}
	if o.isKey {
		o.keys[o.depth] = text
		return nil
	}
	return o.found(o.path(), text)
}

// path returns what the value is called that comes next, or nothing if nobody asks for it. Decoders differ in whether
// they tell apart upper and lower case.
func (o *outline) path() string {
	var of []string
	switch {
	case o.depth == 1:
		of = []string{"kind", "apiVersion", "status", "type"}
	case o.depth == 2 && strings.EqualFold(o.keys[1], "object"):
		of = []string{"kind", "apiVersion"}
	}
	for _, name := range of {
		if strings.EqualFold(o.keys[o.depth], name) {
			return strings.Repeat("object.", o.depth-1) + name
		}
	}
	return ""
}
