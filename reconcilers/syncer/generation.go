// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observedGeneration is where controllers say which generation a status or condition is about.
const observedGeneration = "observedGeneration"

// generations translates the generations in a copy's status into the original's: those of the copy count other
// changes.
type generations struct {
	copied   int64 // of the copy
	original int64 // the original's that the copy has; 0 if unknown
	latest   int64 // the original's now: no number may be higher
}

func (s *Session[T]) generations(from client.Object) generations {
	g := generations{copied: from.GetGeneration(), latest: s.up.GetGeneration()}
	// Without a status of its own, each write of the status would be another generation of the original.
	if original, err := strconv.ParseInt(from.GetAnnotations()[s.of.keys.Generation], 10, 64); err == nil && !s.of.noStatus.Load() {
		g.original = min(original, g.latest)
	}
	return g
}

// inMap translates a status or a part of it; known is that part in the original. A number stays until the copy has
// been observed, and never falls, so that who waits for it waits neither forever nor too little.
func (g generations) inMap(status, known map[string]any) {
	had, isKnown := known[observedGeneration].(int64)
	if isKnown = isKnown && had <= g.latest; !isKnown {
		had = 0
	}
	observed, isObserved := status[observedGeneration].(int64)
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

// sameAs returns the element with the same type or name, as conditions have, else with the same index.
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
