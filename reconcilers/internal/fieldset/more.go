// SPDX-License-Identifier: Apache-2.0

package fieldset

import "slices"

// More returns, by path, what an object that contains desired has where desired has an empty map, null or a list of
// maps; nil for nothing. Only the API server knows whether apply would remove it. Values may be secret.
func More(actual, desired map[string]any) map[string]any {
	var m more
	m.inMap(nil, actual, desired)
	return m.found
}

// more keeps the way as a slice: an object that has no more allocates nothing.
type more struct{ found map[string]any }

type way []difference

func (m *more) in(at way, actual, desired any) {
	switch d := desired.(type) {
	case nil:
		if actual != nil {
			m.add(at, actual)
		}
	case map[string]any:
		a, _ := actual.(map[string]any)
		if len(d) == 0 && len(a) > 0 {
			m.add(at, actual)
		}
		m.inMap(at, a, d)
	case []any:
		if a, _ := actual.([]any); isKeyed(d) {
			m.inKeyed(at, a, d)
		} else if len(a) == len(d) {
			for i, want := range d {
				m.in(append(at, difference{kind: inList, index: i}), a[i], want)
			}
		}
	}
}

func (m *more) inMap(at way, actual, desired map[string]any) {
	for key, want := range desired {
		if key != "finalizers" {
			m.in(append(at, difference{kind: inMap, key: key}), actual[key], want)
		}
	}
}

func (m *more) inKeyed(at way, actual, desired []any) {
	var others []any
	for i, want := range desired {
		found := slices.IndexFunc(actual, func(is any) bool { return contains(is, want) == nil })
		if found < 0 {
			return // The object does not contain the desired one.
		}
		others = append(others, actual[:found]...)
		m.in(append(at, difference{kind: inList, index: i}), actual[found], want)
		actual = actual[found+1:]
	}
	if others = append(others, actual...); len(others) > 0 {
		m.add(at, others)
	}
}

func (m *more) add(at way, value any) {
	if m.found == nil {
		m.found = map[string]any{}
	}
	steps := append(slices.Clone(at), difference{})
	for i := range at {
		steps[i].next = &steps[i+1]
	}
	m.found[steps[0].path()] = value
}
