// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"strconv"
	"strings"
)

// maxKey is the number of bytes of a key in a path. Keys of annotations and of the data of a Secret have fewer.
const maxKey = 320

// difference is the way to a field that differs, from the outside to the inside. It is made from the inside, so that comparing
// allocates nothing for the fields that do not differ.
type difference struct {
	kind  step
	key   string
	index int
	next  *difference
}

// step is one step of the way.
type step uint8

const (
	atEnd step = iota // the value itself differs
	inMap
	inList
)

// end returns the difference of a value itself.
func end() *difference { return &difference{kind: atEnd} }

// unless returns the difference of a value itself, unless the value is as desired.
func unless(same bool) *difference {
	if same {
		return nil
	}
	return end()
}

// path returns the path of the field, which is empty for no difference. A key that is not a plain name is in brackets.
func (d *difference) path() string {
	var path strings.Builder
	for ; d != nil && d.kind != atEnd; d = d.next {
		switch {
		case d.kind == inList:
			path.WriteString("[" + strconv.Itoa(d.index) + "]")
		case !isPlain(d.key):
			path.WriteString("[" + printable(d.key) + "]")
		case path.Len() > 0:
			path.WriteString("." + d.key)
		default:
			path.WriteString(d.key)
		}
	}
	return path.String()
}

func isPlain(key string) bool {
	return key != "" && len(key) <= maxKey && !strings.ContainsFunc(key, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// printable returns a key, cut, and quoted if it has characters that a message must not have.
func printable(key string) string {
	cut := ""
	if len(key) > maxKey {
		key, cut = key[:maxKey], "..."
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`[]"\`, r) }) {
		key = strconv.QuoteToASCII(key)
	}
	return key + cut
}
