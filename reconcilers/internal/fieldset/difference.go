// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"strconv"
	"strings"
)

// maxKey bounds a key in a path, in bytes. Keys of annotations and Secrets are shorter.
const maxKey = 320

// difference is the way to a field, made from the inside, so that equal fields allocate nothing.
type difference struct {
	kind  step
	key   string
	index int
	next  *difference
}

type step uint8

const (
	atEnd step = iota // the value itself differs
	inMap
	inList
)

func end() *difference { return &difference{kind: atEnd} }

func unless(same bool) *difference {
	if same {
		return nil
	}
	return end()
}

// path is empty for no difference. A key that is no plain name is in brackets.
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

// printable cuts a key, and quotes it if a message must not have it.
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
