// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"strings"
)

// Reason is why credentials are not accepted. The values are the reasons of a Cluster's condition CredentialsValid.
type Reason string

// Every rejected input has exactly one Reason.
const (
	// ReasonKeyNotFound: the data has no key that could be read.
	ReasonKeyNotFound Reason = "KeyNotFound"
	// ReasonInvalidKubeconfig: the data cannot be parsed, is incomplete, contradicts itself or is not understood.
	ReasonInvalidKubeconfig Reason = "InvalidKubeconfig"
	// ReasonExecNotAllowed: a command would have to run to get the credential.
	ReasonExecNotAllowed Reason = "ExecNotAllowed"
	// ReasonInsecureTLSNotAllowed: the server's certificate would not be verified.
	ReasonInsecureTLSNotAllowed Reason = "InsecureTLSNotAllowed"
	// ReasonFilePathNotAllowed: a file is named in place of its content.
	ReasonFilePathNotAllowed Reason = "FilePathNotAllowed"
	// ReasonAuthProviderNotAllowed: a vendor's authentication plugin is used.
	ReasonAuthProviderNotAllowed Reason = "AuthProviderNotAllowed"
	// ReasonImpersonationNotAllowed: requests would be made as another user.
	ReasonImpersonationNotAllowed Reason = "ImpersonationNotAllowed"
	// ReasonBasicAuthNotAllowed: there is a user name or a password.
	ReasonBasicAuthNotAllowed Reason = "BasicAuthNotAllowed"
	// ReasonSchemeNotAllowed: the server's URL is no https URL.
	ReasonSchemeNotAllowed Reason = "SchemeNotAllowed"
	// ReasonProxyNotAllowed: there is a proxy, and the Policy does not allow it.
	ReasonProxyNotAllowed Reason = "ProxyNotAllowed"
	// ReasonAddressNotAllowed: the Policy forbids to dial the address.
	ReasonAddressNotAllowed Reason = "AddressNotAllowed"
	// ReasonTooLarge: the data exceeds a limit in bytes or entries.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonExpired: the client certificate or token is past its end.
	ReasonExpired Reason = "Expired"
)

// Error explains why credentials are not accepted, or an address was not dialled. It never wraps another error, because
// errors of parsers quote their input.
type Error struct {
	Reason Reason
	// Key is the key of the Secret's data; empty if the problem is elsewhere, or no key was found.
	Key string
	// Field is a path in the value of Key, such as "users[0].user.exec", or in the Cluster, such as "spec.server";
	// empty for the value as a whole.
	Field string

	text string // the problem and the solution
}

// Error returns the place, the problem and the solution: at most 512 printable bytes on one line, without any part of a
// credential.
func (e *Error) Error() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{e.Key, e.Field, e.text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return OneLine(strings.Join(parts, ": "), maxMessage)
}

// place is where a value was found.
type place struct{ key, field string }

func (p place) at(part string) place {
	if p.field != "" && part != "" {
		part = p.field + "." + part
	}
	return place{key: p.key, field: part}
}

// name is without the parents.
func (p place) name() string {
	if p.field == "" {
		return p.key
	}
	return p.field[strings.LastIndex(p.field, ".")+1:]
}

func (p place) refuse(reason Reason, text string) error {
	return &Error{Reason: reason, Key: p.key, Field: p.field, text: text}
}

func (p place) invalid(text string) error { return p.refuse(ReasonInvalidKubeconfig, text) }

// maxMessage bounds every text that leaves the package, in bytes.
const maxMessage = 512

// maxNameLen is the maximum length of an unknown field name in messages.
const maxNameLen = 32

// quotable replaces what does not look like a field by a question mark: a forgotten colon turns a token into a key.
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
