// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrPointer means a malformed JSON pointer, or one to the identity of an object.
var ErrPointer = errors.New("invalid JSON pointer")

// Without removes the fields that JSON pointers (RFC 6901) name. Missing ones are no error, and all name fields of
// obj as passed. The error wraps ErrPointer; then obj is unchanged.
func Without(obj map[string]any, pointers []string) error {
	all := make([][]string, 0, len(pointers))
	for _, pointer := range pointers {
		steps, err := parse(pointer)
		if err != nil {
			return fmt.Errorf("%w %q: %w", ErrPointer, pointer, err)
		}
		all = append(all, steps)
	}
	without(obj, all)
	return nil
}

var (
	errSlash    = errors.New("it begins with a slash")
	errEscape   = errors.New("a tilde is written as ~0, and a slash within a key as ~1")
	errIdentity = errors.New("the object needs its apiVersion, kind, name and namespace")
)

func parse(pointer string) ([]string, error) {
	if !strings.HasPrefix(pointer, "/") {
		return nil, errSlash
	}
	steps := strings.Split(pointer[1:], "/")
	for i, step := range steps {
		rest := strings.NewReplacer("~0", "", "~1", "").Replace(step)
		if strings.Contains(rest, "~") {
			return nil, errEscape
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	if slices.Contains([]string{"/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"}, pointer) {
		return nil, errIdentity
	}
	return steps, nil
}

// without returns what stays of a value.
func without(value any, pointers [][]string) any {
	if len(pointers) == 0 {
		return value
	}
	within := map[string][][]string{}
	for _, steps := range pointers {
		within[steps[0]] = append(within[steps[0]], steps[1:])
	}
	isWhole := func(rest []string) bool { return len(rest) == 0 }
	switch v := value.(type) {
	case map[string]any:
		for key, rest := range within {
			if slices.ContainsFunc(rest, isWhole) {
				delete(v, key)
			} else if one, ok := v[key]; ok {
				v[key] = without(one, rest)
			}
		}
	case []any:
		kept := v[:0]
		for i, one := range v {
			if rest := within[strconv.Itoa(i)]; !slices.ContainsFunc(rest, isWhole) {
				kept = append(kept, without(one, rest))
			}
		}
		return kept
	}
	return value
}
