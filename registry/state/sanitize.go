// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxMessage is how many bytes of text a Condition carries.
const MaxMessage = 512

// Sanitize returns text as a condition can hold it: one line of graphic characters, at most MaxMessage bytes.
func Sanitize(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == utf8.RuneError { // this removes characters that change the direction of text too
			return -1
		}
		return r
	}, text)
	if len(text) <= MaxMessage {
		return text
	}
	cut := strings.ToValidUTF8(text[:MaxMessage-len("…")], "")
	return cut + "…"
}
