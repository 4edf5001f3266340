// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// MaxLength is the length of the longest name that this package makes, in bytes.
	MaxLength   = 63
	shortDigits = 10

	separator = "-x-"
	inserted  = 2
)

// Concat joins parts with hyphens. More than 63 bytes are cut to 52, with a hyphen and 10 hex digits of the SHA-256.
// Then dots before a hyphen go.
func Concat(parts ...string) string {
	joined := strings.Join(parts, "-")
	if len(joined) > MaxLength {
		joined = joined[:MaxLength-shortDigits-1] + "-" + digest(joined)
	}
	return strings.ReplaceAll(joined, ".-", "-")
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:shortDigits/2])
}

// Namespaced returns the published name of the copy. No name makes no name.
func Namespaced(name, namespace, tenant string) string {
	if name == "" {
		return ""
	}
	return Concat(name, "x", namespace, "x", tenant)
}

// ClusterScoped returns the published name of a copy without a namespace; vcluster's prefix is vcluster.
func ClusterScoped(prefix, name, hostNamespace, tenant string) string {
	if name == "" {
		return ""
	}
	return Concat(prefix, name, "x", hostNamespace, "x", tenant)
}

// LabelKey returns the published key of a copy's label; hostNamespace is empty for namespaced objects. A prefix of
// more than 46 bytes is kept whole, so the key is valid for every DNS subdomain.
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
