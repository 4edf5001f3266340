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

// MaxQuote bounds what Quote returns, in bytes.
const MaxQuote = 256

// Quote makes foreign text, such as a remote's reason for a refusal, fit for the status of a user's object: OneLine of at
// most MaxQuote bytes. redact must be Redact with the credentials of the remote and the hub, as Registry.Quote has them; it
// is called before the text is cut.
func Quote(text string, redact func(text string) string) string {
	return cutTo(redact(printable(text)), MaxQuote)
}

// OneLine makes a text fit for a status: one line of printable characters, none that change the direction of text or have
// no width, at most so many bytes of valid UTF-8.
func OneLine(text string, most int) string { return cutTo(printable(text), most) }

func printable(text string) string {
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
	return strings.Join(strings.Fields(text), " ")
}

func cutTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most - len("...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

const (
	redacted = "[redacted]"
	// leastPart of a longer credential is found. Less may be a word, and is of no use to an attacker.
	leastPart = 12
	// leastCredential: a shorter one is a word.
	leastCredential = 8
)

// Redact replaces each part of the credentials in a text by "[redacted]". A part has 12 characters, or is all of a
// shorter credential of 8 or more. A text of more than 64 KiB is cut; Quote does more.
func Redact(text string, credentials ...Credential) string {
	text = bounded(text)
	for _, c := range credentials {
		for _, hidden := range c.secret().parts {
			text = redact(text, hidden)
		}
	}
	return text
}

// partsOf has the token and the key's bytes in PEM, in lower case.
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

// SignatureIn reports whether a text has the signature of the token, a JWT.
func (c Credential) SignatureIn(text string) bool {
	token := c.secret().token
	signature := token[strings.LastIndexByte(token, '.')+1:]
	return len(signature) >= leastCredential && strings.Contains(text, signature)
}

// redact gets hidden in lower case. Neither has spaces that count: most texts are words that are too short.
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

// lower keeps the length.
func lower(text string) string {
	lowered := []byte(text)
	for i, c := range lowered {
		if 'A' <= c && c <= 'Z' {
			lowered[i] = c + 'a' - 'A'
		}
	}
	return string(lowered)
}

// CredentialOf returns the credential of a client, for Quote and Redact. It reads the configuration's file now: tokens
// of Pods are rotated.
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

// Quoter is Quote for one remote: with the credentials of that remote and of the hub replaced.
type Quoter func(text string) string
