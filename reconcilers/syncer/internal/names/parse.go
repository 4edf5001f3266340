// SPDX-License-Identifier: Apache-2.0

package names

import "strings"

// ParseReadable returns the name and the namespace of the original of a namespaced object, from the published name of its
// copy. ok is false if the name is not of that tenant, or is hashed, or can be split in several ways. The result is for people:
// only the marks of an object prove whose copy it is, since anyone may choose such a name.
func ParseReadable(downstream, tenant string) (name, namespace string, ok bool) {
	rest, ok := strings.CutSuffix(downstream, separator+tenant)
	if !ok {
		return "", "", false
	}
	name, namespace, _ = strings.Cut(rest, separator)
	ok = name != "" && namespace != "" && readableAs(downstream, OfNamespaced(name, namespace, tenant))
	if !ok {
		return "", "", false
	}
	return name, namespace, true
}

// ParseClusterScoped returns the name of the original of an object without a namespace, from the published name of its copy.
// It has the limits of ParseReadable.
func ParseClusterScoped(prefix, downstream, hostNamespace, tenant string) (name string, ok bool) {
	rest, ok := strings.CutSuffix(downstream, separator+hostNamespace+separator+tenant)
	if !ok {
		return "", false
	}
	name, ok = strings.CutPrefix(rest, prefix+"-")
	if !ok || !readableAs(downstream, OfClusterScoped(prefix, name, hostNamespace, tenant)) {
		return "", false
	}
	return name, true
}

// readableAs reports whether a name is the published form among candidates.
func readableAs(name string, all []string) bool { return len(all) > 1 && all[0] == name }
