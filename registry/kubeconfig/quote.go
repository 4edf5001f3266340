// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"encoding/pem"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/client-go/rest"
)

// MaxQuote is the size of the longest text that Quote returns, in bytes.
const MaxQuote = 256

// Quote makes foreign text, such as the reason that a remote gives for a refusal, fit for the status of an object that
// a user owns: one line of printable characters, without characters that change the direction of text or have no width,
// at most MaxQuote bytes of valid UTF-8. redact replaces the credentials of the remote and of the hub before the text
// is cut: it is Redact with these credentials. The method Quote of a Registry has them.
func Quote(text string, redact func(text string) string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError, !unicode.IsPrint(r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r),
			unicode.Is(unicode.Variation_Selector, r):
			return -1
		}
		return r
	}, text)
	text = redact(strings.Join(strings.Fields(text), " "))
	if len(text) <= MaxQuote {
		return text
	}
	cut := MaxQuote - len("...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

const (
	// redacted replaces a credential.
	redacted = "[redacted]"
	// leastPart is the length of the shortest part of a longer credential that Redact finds. A shorter part may be a
	// word, and is of no use to an attacker.
	leastPart = 12
	// leastCredential is the length of the shortest credential that Redact looks for: a shorter one is a word.
	leastCredential = 8
)

// Redact replaces each part of one of the credentials in a text by "[redacted]". A part has 12 characters at least, or
// is all of a shorter credential of 8 characters at least. The rest of the text does not change, except that a text of
// more than 64 KiB is cut; Quote does more.
func Redact(text string, credentials ...Credential) string {
	text = bounded(text)
	for _, c := range credentials {
		for _, hidden := range c.secret().texts() {
			text = redact(text, hidden)
		}
	}
	return text
}

// texts returns the secrets that may be part of a foreign text, in lower case.
func (s *secret) texts() []string { return s.parts }

// partsOf returns the token, and the bytes of the key as PEM has them, in lower case.
func partsOf(s *secret) []string {
	var all []string
	if s.token != "" {
		all = append(all, lower(s.token))
	}
	if block, _ := pem.Decode(s.key); block != nil {
		lines := strings.Split(string(s.key), "\n")
		for _, line := range lines {
			if len(line) >= leastPart && !strings.HasPrefix(line, "-----") {
				all = append(all, lower(line))
			}
		}
	}
	return all
}

// SignatureIn reports whether a text has the last part of the credential's token in it, the signature of a JWT.
func (c Credential) SignatureIn(text string) bool {
	token := c.secret().token
	signature := token[strings.LastIndexByte(token, '.')+1:]
	return len(signature) >= leastCredential && strings.Contains(text, signature)
}

// redact replaces parts of one secret, which is in lower case. Neither has a space in it that counts: most texts are
// words that are too short.
func redact(text, hidden string) string {
	least := min(leastPart, len(hidden))
	if least < leastCredential || len(text) < least {
		return text
	}
	in := lower(text)
	var kept strings.Builder
	from := 0 // of the text that was not yet copied
	for at := 0; at+least <= len(in); {
		if space := strings.LastIndexByte(in[at:at+least], ' '); space >= 0 {
			at += space + 1
			continue
		}
		if !strings.Contains(hidden, in[at:at+least]) {
			at++
			continue
		}
		end := at + least
		for end < len(in) && strings.Contains(hidden, in[at:end+1]) {
			end++
		}
		kept.WriteString(text[from:at])
		kept.WriteString(redacted)
		at, from = end, end
	}
	if from == 0 {
		return text
	}
	return kept.String() + text[from:]
}

// lower returns a text with ASCII letters in lower case, and of the same length.
func lower(text string) string {
	return string(asciiLower([]byte(text)))
}

func asciiLower(text []byte) []byte {
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[i] = c + 'a' - 'A'
		}
	}
	return text
}

// CredentialOf returns the credential of a client, for Quote and Redact. It reads the file that the configuration names,
// if any, as it is now: tokens of Pods are rotated.
func CredentialOf(config *rest.Config) Credential {
	if config == nil {
		return Credential{}
	}
	s := &secret{kind: Token, token: config.BearerToken, key: config.KeyData}
	if config.BearerTokenFile != "" {
		if token, err := os.ReadFile(config.BearerTokenFile); err == nil {
			s.token = strings.TrimSpace(string(token))
		}
	}
	return newCredential(s)
}

// Quoter makes a text that a remote wrote fit for the status of an object that a user owns, as Quote does, with the
// credentials of that remote and of the hub replaced.
type Quoter func(text string) string
