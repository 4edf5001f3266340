// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observedGeneration is the field in which controllers say which generation of an object a status, or a condition, is about.
const observedGeneration = "observedGeneration"

// generations translates the generations that the status of a copy names into those of its original. Those of the copy count other
// changes.
type generations struct {
	copied   int64 // the generation of the copy
	original int64 // that of the original, which the copy has; 0 if that is not known
	latest   int64 // that which the original has now: a higher number is wrong, whoever has written it
}

func (s *Session[T]) generations(from client.Object) generations {
	g := generations{copied: from.GetGeneration(), latest: s.up.GetGeneration()}
	// Without a status of its own, each write of the status would be another generation of the original.
	if original, err := strconv.ParseInt(from.GetAnnotations()[s.of.keys.Generation], 10, 64); err == nil && !s.of.noStatus.Load() {
		g.original = min(original, g.latest)
	}
	return g
}

// inMap translates the generations in a status, or in a part of it. known is the same part of the status that the original has: its
// number stays until the copy has been observed, and never falls, so that who waits for it waits neither without end nor too little.
func (g generations) inMap(status, known map[string]any) {
	had, isKnown := integer(known[observedGeneration])
	if isKnown = isKnown && had <= g.latest; !isKnown {
		had = 0
	}
	observed, isObserved := integer(status[observedGeneration])
	switch {
	case isObserved && observed >= g.copied && g.original > 0:
		status[observedGeneration] = max(g.original, had)
	case isKnown:
		status[observedGeneration] = had
	case isObserved:
		delete(status, observedGeneration)
	}
	for key, value := range status {
		switch v := value.(type) {
		case map[string]any:
			before, _ := known[key].(map[string]any)
			g.inMap(v, before)
		case []any:
			before, _ := known[key].([]any)
			g.inList(v, before)
		}
	}
}

func (g generations) inList(status, known []any) {
	for i, one := range status {
		if element, isMap := one.(map[string]any); isMap {
			g.inMap(element, sameAs(element, known, i))
		}
	}
}

// sameAs returns the element of a list with the type or the name of an element, as conditions have, or that with its index.
func sameAs(element map[string]any, list []any, i int) map[string]any {
	for _, key := range []string{"type", "name"} {
		name, isText := element[key].(string)
		if !isText {
			continue
		}
		for _, one := range list {
			if other, _ := one.(map[string]any); other[key] == name {
				return other
			}
		}
		return nil
	}
	if i >= len(list) {
		return nil
	}
	other, _ := list[i].(map[string]any)
	return other
}

func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	}
	return 0, false
}
