// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// MaxLength is the length of the longest name that this package makes, in bytes.
	MaxLength = 63
	// shortDigits is the number of hex digits of the published form.
	shortDigits = 10

	separator = "-x-"
	// inserted is the number of separators that the published form inserts.
	inserted = 2
)

// Concat joins parts with hyphens. If the result has more than 63 bytes, it is cut to 52 bytes and gets a hyphen and 10 hex
// digits of its SHA-256. Then each dot before a hyphen is removed.
func Concat(parts ...string) string {
	joined := strings.Join(parts, "-")
	if len(joined) > MaxLength {
		joined = joined[:MaxLength-shortDigits-1] + "-" + digest(joined)
	}
	return strings.ReplaceAll(joined, ".-", "-")
}

// digest returns the first 10 hex digits of the SHA-256 of a text.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:shortDigits/2])
}

// Namespaced returns the published name of the copy of a namespaced object. No name makes no name.
func Namespaced(name, namespace, tenant string) string {
	if name == "" {
		return ""
	}
	return Concat(name, "x", namespace, "x", tenant)
}

// ClusterScoped returns the published name of the copy of an object without a namespace. The prefix is vcluster for the names
// of vcluster. No name makes no name.
func ClusterScoped(prefix, name, hostNamespace, tenant string) string {
	if name == "" {
		return ""
	}
	return Concat(prefix, name, "x", hostNamespace, "x", tenant)
}

// LabelKey returns the published key for the label of a copy whose original has the key, without a host namespace for
// namespaced objects. The result is a valid key for every prefix that is a DNS subdomain: a prefix of more than 46 bytes, which
// the published form would cut, is kept whole.
func LabelKey(prefix, key, tenant, hostNamespace string) string {
	parts := []string{prefix + "/label", tenant}
	if hostNamespace != "" {
		parts = append(parts, hostNamespace)
	}
	parts = append(parts, "x", digest(key))
	if len(parts[0]) <= MaxLength-shortDigits-1 {
		return Concat(parts...)
	}
	parts[0] = "label"
	return prefix + "/" + Concat(parts...)
}
