// SPDX-License-Identifier: Apache-2.0

package object

import (
	"regexp"
	"strings"
)

const maxReason = 1024

// MaxNote bounds the note of an event, in bytes; the API server refuses more.
const MaxNote = 1024

// IsReason reports whether the API server takes a text as the reason of a condition.
func IsReason(text string) bool {
	return len(text) <= maxReason && regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`).MatchString(text)
}

// Shortened cuts to a number of bytes, and drops invalid UTF-8.
func Shortened(text string, most int) string {
	const more = " ..."
	if len(text) > most {
		text = text[:most-len(more)] + more
	}
	return strings.ToValidUTF8(text, "")
}
