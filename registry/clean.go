// SPDX-License-Identifier: Apache-2.0

package registry

import "strings"

// maxMessage is how many bytes of text a Facet carries.
const maxMessage = 512

// clean makes text fit for a condition: one line, printable, bounded.
func clean(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
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
