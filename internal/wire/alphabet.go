// SPDX-License-Identifier: Apache-2.0

package wire

import "strings"

// maxWord is the size of the longest text that word returns, in bytes.
const maxWord = 256

type alphabet func(text string) bool

// Characters of alphabets.
const (
	uppers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowers = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

func consists(text, first, rest string) bool {
	if text == "" || strings.IndexByte(first, text[0]) < 0 {
		return false
	}
	for i := 1; i < len(text); i++ {
		if strings.IndexByte(rest, text[i]) < 0 {
			return false
		}
	}
	return true
}

func isReason(text string) bool { return consists(text, uppers+lowers, uppers+lowers+digits) }

func isName(text string) bool {
	return consists(text, lowers+digits, lowers+digits+".:-") && strings.IndexByte(".:-", text[len(text)-1]) < 0
}

func isField(text string) bool {
	return consists(text, uppers+lowers+"_.", uppers+lowers+digits+`_.-[]"/=(){}:,`)
}

func isPath(text string) bool { return consists(text, "/", uppers+lowers+digits+"/_.:~%-") }

func word(text string, is alphabet) string {
	if len(text) > maxWord || !is(text) {
		return ""
	}
	return text
}

// Which kinds and apiVersions are known is for the decoder to say.

func isKind(text string) bool { return consists(text, uppers+lowers, uppers+lowers+digits+"-") }

func isVersion(text string) bool {
	group, version, found := strings.Cut(text, "/")
	if !found {
		group, version = "a", group
	}
	return consists(group, lowers+digits+".-", lowers+digits+".-") && consists(version, lowers+digits+"-", lowers+digits+"-")
}

func isParam(text string) bool {
	return consists(text, uppers+lowers+digits+"._-", uppers+lowers+digits+"._-")
}
