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
	for _, steps := range all {
		remove(obj, steps)
	}
	if len(all) > 0 {
		compact(obj)
	}
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
	for _, identity := range [][]string{{"apiVersion"}, {"kind"}, {"metadata"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		if slices.Equal(steps, identity) {
			return nil, errIdentity
		}
	}
	return steps, nil
}

// removed marks what compact removes from a list.
type removed struct{}

func remove(value any, steps []string) {
	switch v := value.(type) {
	case map[string]any:
		if len(steps) == 1 {
			delete(v, steps[0])
			return
		}
		remove(v[steps[0]], steps[1:])
	case []any:
		i, err := strconv.Atoi(steps[0])
		if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != steps[0] {
			return
		}
		if len(steps) == 1 {
			v[i] = removed{}
			return
		}
		remove(v[i], steps[1:])
	}
}

func compact(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			if isNested(one) {
				v[key] = compact(one)
			}
		}
	case []any:
		v = slices.DeleteFunc(v, func(one any) bool { return one == removed{} })
		for i, one := range v {
			v[i] = compact(one)
		}
		return v
	}
	return value
}

func isNested(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}
