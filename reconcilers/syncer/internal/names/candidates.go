// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

const (
	// longDigits is the number of hex digits of the unique form.
	longDigits = 22
	// maxReadable is the number of bytes before the digits of the unique form.
	maxReadable = 40
	// placeholder stands before the digits if no readable text is left. It is a letter, because the names of some kinds
	// begin with a letter.
	placeholder = "x"
)

// OfNamespaced returns the names that the copy of a namespaced object may have, in the order in which they are tried. No name
// has no candidates.
func OfNamespaced(name, namespace, tenant string) []string {
	if name == "" {
		return nil
	}
	unique := UniqueNamespaced(name, namespace, tenant)
	if !unambiguous("", name+separator+namespace+separator, tenant) {
		return []string{unique}
	}
	return candidates(Namespaced(name, namespace, tenant), unique)
}

// OfClusterScoped returns the names that the copy of an object without a namespace may have, in the order in which they are
// tried. No name has no candidates.
func OfClusterScoped(prefix, name, hostNamespace, tenant string) []string {
	if name == "" {
		return nil
	}
	unique := UniqueClusterScoped(prefix, name, hostNamespace, tenant)
	if !unambiguous(prefix, "-"+name+separator+hostNamespace+separator, tenant) {
		return []string{unique}
	}
	return candidates(ClusterScoped(prefix, name, hostNamespace, tenant), unique)
}

// candidates returns both forms, or only the unique form if the cut of the published name has split a character:
// no kind allows that name.
func candidates(published, unique string) []string {
	if Valid(published, PathSegment) != nil {
		return []string{unique}
	}
	return []string{published, unique}
}

// unambiguous reports whether the concatenation of a published name can be split in one way only, and has no text that Concat
// removes. The prefix and the tenant are known to whoever splits it, and may therefore have separators of their own.
func unambiguous(prefix, middle, tenant string) bool {
	joined := prefix + middle + tenant
	return separators(joined)-separators(prefix)-separators(tenant) == inserted &&
		(len(joined) > MaxLength || !strings.Contains(joined, ".-"))
}

// separators counts the separators in a text, also if they overlap.
func separators(text string) int {
	count := 0
	for i := range len(text) {
		if strings.HasPrefix(text[i:], separator) {
			count++
		}
	}
	return count
}

// UniqueNamespaced returns the unique name of the copy of a namespaced object.
func UniqueNamespaced(name, namespace, tenant string) string {
	return unique(name, "namespaced", name, namespace, tenant)
}

// UniqueClusterScoped returns the unique name of the copy of an object without a namespace.
func UniqueClusterScoped(prefix, name, hostNamespace, tenant string) string {
	return unique(prefix+"-"+name, "cluster", name, hostNamespace, tenant, prefix)
}

// unique returns a readable text and the digest of a tuple.
func unique(text string, tuple ...string) string {
	var space [512]byte
	buffer := space[:0]
	for _, part := range tuple {
		buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(part)))
		buffer = append(buffer, part...)
	}
	sum := sha256.Sum256(buffer)
	return readable(text) + "-" + hex.EncodeToString(sum[:longDigits/2])
}

// ShortenUnique returns a unique name with at most limit bytes, by cutting its readable text.
func ShortenUnique(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	end := len(name) - longDigits - 1
	return strings.TrimRight(name[:end-(len(name)-limit)], "-") + name[end:]
}

// readable returns the beginning of a text as the beginning of a DNS label.
func readable(text string) string {
	label := make([]byte, 0, maxReadable)
	for i := 0; i < len(text) && len(label) < maxReadable; i++ {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		default:
			c = '-'
		}
		if c == '-' && len(label) == 0 {
			continue // A label begins with a letter or a digit.
		}
		label = append(label, c)
	}
	if trimmed := strings.TrimRight(string(label), "-"); trimmed != "" {
		return trimmed
	}
	return placeholder
}
