// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage is how many bytes of text a Condition carries.
const maxMessage = 512

// Sanitize returns text as a condition can hold it: one line of graphic characters, at most 512 bytes.
func Sanitize(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == utf8.RuneError { // this removes characters that change the direction of text too
			return -1
		}
		return r
	}, text)
	if len(text) <= maxMessage {
		return text
	}
	cut := strings.ToValidUTF8(text[:maxMessage-len("…")], "")
	return cut + "…"
}
