// SPDX-License-Identifier: Apache-2.0

package names

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Form of the names that a kind allows.
type Form uint8

const (
	// Subdomain is for most kinds: a DNS-1123 subdomain of at most 253 bytes.
	Subdomain Form = iota
	// Label is for Namespaces, Services and a few others: a DNS-1123 label of at most 63 bytes.
	Label
	// PathSegment is for RBAC: a segment of a URL path; here at most 253 bytes of valid UTF-8.
	PathSegment
)

// ErrInvalidName means that the kind does not allow the name.
var ErrInvalidName = errors.New("invalid name")

// Valid wraps ErrInvalidName if a name does not have the form.
func Valid(name string, form Form) error {
	if problems := problemsOf(name, form); len(problems) > 0 {
		return fmt.Errorf("%w %q: %s", ErrInvalidName, name, strings.Join(problems, "; "))
	}
	return nil
}

func problemsOf(name string, form Form) []string {
	switch {
	case form == Label:
		return validation.IsDNS1123Label(name)
	case form == Subdomain:
		return validation.IsDNS1123Subdomain(name)
	case name == "":
		return []string{validation.EmptyError()}
	case len(name) > validation.DNS1123SubdomainMaxLength:
		return []string{validation.MaxLenError(validation.DNS1123SubdomainMaxLength)}
	case !utf8.ValidString(name):
		return []string{"must be valid UTF-8"}
	}
	return content.IsPathSegmentName(name)
}
