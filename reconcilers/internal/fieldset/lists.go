// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"cmp"
	"slices"
)

func listContains(actual, desired []any) *difference {
	if isKeyed(desired) {
		return keyedContains(actual, desired)
	}
	if len(actual) != len(desired) {
		return end()
	}
	for i, want := range desired {
		d := contains(actual[i], want)
		if d == nil {
			continue
		}
		if _, isMap := want.(map[string]any); isMap {
			return &difference{kind: inList, index: i, next: d}
		}
		return end()
	}
	return nil
}

func setContains(actual, desired any) *difference {
	is, isList := actual.([]any)
	want, alsoList := desired.([]any)
	if !isList || !alsoList {
		return contains(actual, desired)
	}
	for _, one := range want {
		if !slices.ContainsFunc(is, func(other any) bool { return equal(other, one) }) {
			return end()
		}
	}
	return nil
}

// keyedContains looks behind the previous match.
func keyedContains(actual, desired []any) *difference {
	rest := actual
	for i, want := range desired {
		found := slices.IndexFunc(rest, func(is any) bool { return contains(is, want) == nil })
		if found < 0 {
			d := end() // Without a counterpart, or with a counterpart that only has another position.
			if is := counterpart(actual, want, i); is != nil {
				d = cmp.Or(contains(is, want), d)
			}
			return &difference{kind: inList, index: i, next: d}
		}
		rest = rest[found+1:]
	}
	return nil
}

// counterpart has the key of want, or else its index.
func counterpart(actual []any, want any, i int) any {
	key := keyOf(want)
	for _, is := range actual {
		if keyOf(is) == key {
			return is
		}
	}
	if i < len(actual) {
		return actual[i]
	}
	return nil
}

func isKeyed(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(one any) bool { return keyOf(one) == (elementKey{}) })
}

type elementKey struct {
	field, value string
	number       int64
}

// keyOf has the keys of lists of type map in Kubernetes' API.
func keyOf(element any) elementKey {
	fields, ok := element.(map[string]any)
	if !ok {
		return elementKey{}
	}
	for _, field := range []string{"uid", "name", "mountPath", "devicePath", "ip"} {
		value, ok := fields[field].(string)
		if ok && (field != "name" || fields["kind"] == nil) {
			return elementKey{field: field, value: value}
		}
	}
	if port, ok := numberOf(fields["containerPort"]); ok {
		protocol, _ := fields["protocol"].(string)
		return elementKey{field: "containerPort", value: protocol, number: port.whole}
	}
	if value, ok := fields["type"].(string); ok && fields["status"] != nil {
		return elementKey{field: "type", value: value} // A condition.
	}
	if value, ok := fields["topologyKey"].(string); ok && fields["whenUnsatisfiable"] != nil {
		return elementKey{field: "topologyKey", value: value}
	}
	return elementKey{}
}
