// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

const (
	longDigits  = 22
	maxReadable = 40
	placeholder = "x" // a letter, because the names of some kinds begin with one
)

// OfNamespaced returns the names that a copy may have, in the order of trial.
func OfNamespaced(name, namespace, tenant string) []string {
	return candidates(Namespaced(name, namespace, tenant), UniqueNamespaced(name, namespace, tenant),
		unambiguous("", name+separator+namespace+separator, tenant))
}

// OfClusterScoped is OfNamespaced for objects without a namespace.
func OfClusterScoped(prefix, name, hostNamespace, tenant string) []string {
	return candidates(ClusterScoped(prefix, name, hostNamespace, tenant), UniqueClusterScoped(prefix, name, hostNamespace, tenant),
		unambiguous(prefix, "-"+name+separator+hostNamespace+separator, tenant))
}

// candidates leaves out a published name whose cut has split a character: no kind allows it.
func candidates(published, unique string, isUnambiguous bool) []string {
	switch {
	case published == "":
		return nil
	case !isUnambiguous, !utf8.ValidString(published), len(content.IsPathSegmentName(published)) > 0:
		return []string{unique}
	}
	return []string{published, unique}
}

// unambiguous reports whether a published name can be split in one way only, and has no text that Concat removes.
// Prefix and tenant are known, so they may have separators.
func unambiguous(prefix, middle, tenant string) bool {
	joined := prefix + middle + tenant
	return separators(joined)-separators(prefix)-separators(tenant) == inserted &&
		(len(joined) > MaxLength || !strings.Contains(joined, ".-"))
}

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

// ShortenUnique cuts the readable text.
func ShortenUnique(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	end := len(name) - longDigits - 1
	return strings.TrimRight(name[:end-(len(name)-limit)], "-") + name[end:]
}

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
