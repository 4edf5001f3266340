// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage is how many bytes of text a Facet carries.
const maxMessage = 512

// clean makes text fit for a condition: one line, of what can be seen, bounded.
func clean(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
	text = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) || r == utf8.RuneError { // not what turns the direction of text, either
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
