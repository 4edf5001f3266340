// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The sizes of SafeConcat, in bytes.
const (
	limit, prefix                 = 63, 52
	generateLimit, generatePrefix = 53, 42
	digits                        = 10
	// uniquePrefix and uniqueDigits are those of the form that has no collisions.
	uniquePrefix, uniqueDigits = 40, 20
)

// separator separates the parts of a readable name.
const separator = "-x-"

// Concat joins parts with "-". A result of more than 63 bytes is cut, and ends with a hash of the whole.
func Concat(parts ...string) string { return concat(limit, prefix, parts) }

// ConcatGenerate is Concat for the prefix of a generated name, of at most 53 bytes.
func ConcatGenerate(parts ...string) string { return concat(generateLimit, generatePrefix, parts) }

func concat(most, kept int, parts []string) string {
	full := strings.Join(parts, "-")
	if len(full) > most {
		full = full[:kept] + "-" + hexOf(full)[:digits]
	}
	return strings.ReplaceAll(full, ".-", "-")
}

func hexOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Namespaced returns the readable name of the copy of a namespaced object, or "" for an object without a name.
func Namespaced(name, namespace, tenant string) string {
	if name == "" {
		return ""
	}
	return Concat(name, "x", namespace, "x", tenant)
}

// ClusterScoped returns the readable name of the copy of an object without a namespace. namespace is that of the tenant in the
// downstream cluster, and may be empty.
func ClusterScoped(start, name, namespace, tenant string) string {
	if name == "" {
		return ""
	}
	if namespace == "" {
		return Concat(start, name, "x", tenant)
	}
	return Concat(start, name, "x", namespace, "x", tenant)
}

// Short returns a name of 14 bytes.
func Short(name, namespace, tenant string) string {
	sum := sha256.Sum256([]byte(name + separator + namespace + separator + tenant))
	return "v" + new(big.Int).SetBytes(sum[:]).Text(36)[:13]
}

// Unique returns the name of the copy that no other object has: a readable beginning, and a hash of all parts with their
// lengths.
func Unique(parts ...string) string {
	var whole strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&whole, "%d/%s/", len(p), p)
	}
	readable := strings.Trim(clean(parts[0]), "-")
	if len(readable) > uniquePrefix {
		readable = strings.TrimRight(readable[:uniquePrefix], "-")
	}
	if readable == "" {
		readable = "x"
	}
	return readable + "-" + hexOf(whole.String())[:uniqueDigits]
}

// clean replaces everything that a DNS label cannot have.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// OfNamespaced returns the names that the copy of a namespaced object may have, in the order in which they are tried.
func OfNamespaced(name, namespace, tenant string) []string {
	full := name + separator + namespace + separator + tenant
	return candidates(Namespaced(name, namespace, tenant), Unique(name, namespace, tenant, "namespaced"),
		occurrences(full)-occurrences(tenant) == 2)
}

// OfClusterScoped is OfNamespaced for an object without a namespace.
func OfClusterScoped(start, name, namespace, tenant string) []string {
	full, separators := start+"-"+name+separator+namespace+separator+tenant, 2
	if namespace == "" {
		full, separators = start+"-"+name+separator+tenant, 1
	}
	return candidates(ClusterScoped(start, name, namespace, tenant), Unique(name, namespace, tenant, "cluster", start),
		occurrences(full)-occurrences(tenant)-occurrences(start) == separators)
}

// candidates returns the readable name, if it has its separators only where they belong, and the unique name.
func candidates(readable, unique string, clear bool) []string {
	switch {
	case readable == "":
		return nil
	case !clear || !isName(readable):
		return []string{unique}
	}
	return []string{readable, unique}
}

// occurrences counts the separators in a name, including those that overlap.
func occurrences(name string) int {
	count := 0
	for i := range len(name) {
		if strings.HasPrefix(name[i:], separator) {
			count++
		}
	}
	return count
}

// isName reports whether a name is a DNS subdomain of up to 63 bytes.
func isName(name string) bool {
	return len(name) <= limit && len(validation.IsDNS1123Subdomain(name)) == 0
}

// Parse returns the parts of a readable name of a namespaced object, and false if the name has another form.
func Parse(readable, tenant string) (name, namespace string, ok bool) {
	rest, ok := strings.CutSuffix(readable, separator+tenant)
	if !ok || occurrences(rest) != 1 {
		return "", "", false
	}
	name, namespace, ok = strings.Cut(rest, separator)
	return name, namespace, ok && Namespaced(name, namespace, tenant) == readable
}

// LabelKey returns the hashed form of the key of a label. namespace is that of the tenant for objects without a namespace, and
// empty for others.
func LabelKey(keyPrefix, key, tenant, namespace string) string {
	start := keyPrefix + "/label"
	if namespace == "" {
		return Concat(start, tenant, "x", hexOf(key)[:digits])
	}
	return Concat(start, tenant, namespace, "x", hexOf(key)[:digits])
}
