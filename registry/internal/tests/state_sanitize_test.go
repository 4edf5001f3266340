// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/clusterfx/clusterfx/registry/state"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "",
		"plain, with ümlauts and 漢字":  "plain, with ümlauts and 漢字",
		"two\nlines\r\nand\ttabs":     "two lines and tabs",
		"a bell\a, \x00 and \x1b[31m": "a bell, and [31m",
		"turned \u202Eround\u202C":    "turned round",
		"nothing\u200B to see\uFEFF":  "nothing to see",
		"not UTF-8: \xff\xfe":         "not UTF-8:",
		strings.Repeat("ü", 512):      strings.Repeat("ü", (512-len("..."))/2) + "...",
	} {
		if got := state.Sanitize(text); got != want || len(got) > 512 || !utf8.ValidString(got) {
			t.Errorf("Sanitize(%.40q) = %.40q, want %.40q", text, got, want)
		}
	}
}
