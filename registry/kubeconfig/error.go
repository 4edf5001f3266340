// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Reason is the reason why credentials are not accepted, in one word. The values are the reasons of the condition
// CredentialsValid of a Cluster, so that they can be copied.
type Reason string

// Reasons of an Error. Every rejected input has exactly one.
const (
	// ReasonKeyNotFound means that the data has no key that could be read.
	ReasonKeyNotFound Reason = "KeyNotFound"
	// ReasonInvalidKubeconfig means that the data cannot be parsed, is incomplete, contradicts
	// itself or holds something that is not understood.
	ReasonInvalidKubeconfig Reason = "InvalidKubeconfig"
	// ReasonExecNotAllowed means that a command would have to run to get the credential.
	ReasonExecNotAllowed Reason = "ExecNotAllowed"
	// ReasonInsecureTLSNotAllowed means that the server's certificate would not be verified.
	ReasonInsecureTLSNotAllowed Reason = "InsecureTLSNotAllowed"
	// ReasonFilePathNotAllowed means that a file is named where its content is needed.
	ReasonFilePathNotAllowed Reason = "FilePathNotAllowed"
	// ReasonAuthProviderNotAllowed means that the kubeconfig uses an authentication plugin of a vendor.
	ReasonAuthProviderNotAllowed Reason = "AuthProviderNotAllowed"
	// ReasonImpersonationNotAllowed means that requests would be made as another user.
	ReasonImpersonationNotAllowed Reason = "ImpersonationNotAllowed"
	// ReasonBasicAuthNotAllowed means that there is a user name or a password.
	ReasonBasicAuthNotAllowed Reason = "BasicAuthNotAllowed"
	// ReasonSchemeNotAllowed means that the server's URL is not an https URL.
	ReasonSchemeNotAllowed Reason = "SchemeNotAllowed"
	// ReasonProxyNotAllowed means that there is a proxy, and the Policy does not allow it.
	ReasonProxyNotAllowed Reason = "ProxyNotAllowed"
	// ReasonAddressNotAllowed means that the Policy forbids to dial the address.
	ReasonAddressNotAllowed Reason = "AddressNotAllowed"
	// ReasonTooLarge means that the data exceeds a limit in bytes or in entries.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonExpired means that the client certificate or the token is past its end.
	ReasonExpired Reason = "Expired"
)

// Error explains why credentials are not accepted, or why an address was not dialled. It never wraps another error,
// because parser errors quote their input, which is secret.
type Error struct {
	// Reason is the kind of problem.
	Reason Reason
	// Key is the key of the Secret's data that has the problem. It is empty if the problem is
	// elsewhere, or if no key was found.
	Key string
	// Field is where the problem is: a path in the value of Key, such as "users[0].user.exec", or a
	// path in the Cluster, such as "spec.server". It is empty if it is the value as a whole.
	Field string

	text string // the problem and the solution
}

// Error returns the place, the problem and the solution: at most 512 bytes of printable text on one line, without any
// part of a credential.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{e.Key, e.Field, e.text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return clean(strings.Join(parts, ": "))
}

// place is where a value was found. Errors are made from it.
type place struct{ key, field string }

// at returns the place of a part of the value.
func (p place) at(part string) place {
	if p.field != "" && part != "" {
		part = p.field + "." + part
	}
	return place{key: p.key, field: part}
}

// name returns the name of the value at this place, without its parents.
func (p place) name() string {
	if p.field == "" {
		return p.key
	}
	return p.field[strings.LastIndex(p.field, ".")+1:]
}

// refuse returns an Error about the value at this place.
func (p place) refuse(reason Reason, text string) error {
	return &Error{Reason: reason, Key: p.key, Field: p.field, text: text}
}

// invalid returns an Error of the most common reason.
func (p place) invalid(text string) error { return p.refuse(ReasonInvalidKubeconfig, text) }

// maxMessage bounds every text that leaves the package, in bytes.
const maxMessage = 512

// clean makes a text of any origin fit for a status: one line, printable, bounded.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage - len("...")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// maxNameLen is the maximum length of an unknown field name in messages.
const maxNameLen = 32

// quotable returns the path of a field for a message. Names that do not look like the name of a field are replaced by a
// question mark: a forgotten colon turns a token into a key.
func quotable(path string) string {
	segments := strings.Split(path, ".")
	if len(segments) > 2*maxDepth {
		return "?"
	}
	for i, segment := range segments {
		name, index, _ := strings.Cut(segment, "[")
		if !isFieldName(name) || strings.Trim(index, "0123456789[]") != "" {
			segments[i] = "?"
		}
	}
	return strings.Join(segments, ".")
}

func isFieldName(name string) bool {
	return name != "" && len(name) <= maxNameLen && strings.IndexFunc(name, func(r rune) bool {
		return r != '-' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}
