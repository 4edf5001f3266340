// SPDX-License-Identifier: Apache-2.0

package names

import "strings"

// ParseReadable returns name and namespace of the original. ok is false if the name is of another tenant, hashed, or
// ambiguous. It is for people: anyone may choose such a name, only marks prove whose copy it is.
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

// ParseClusterScoped is ParseReadable for objects without a namespace.
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

func readableAs(name string, all []string) bool { return len(all) > 1 && all[0] == name }
