// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Hash returns a hash of the paths of all fields of an object. Values make no difference, and lists only by their length.
func Hash(desired map[string]any) string {
	h := sha256.New()
	hashPaths(h, desired)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// hashPaths writes the shape of a value. Each name is preceded by its length, so that a key with any content is not taken for
// a deeper path.
func hashPaths(h hash.Hash, value any) {
	switch v := value.(type) {
	case map[string]any:
		_, _ = fmt.Fprintf(h, "{%d", len(v)) // A hash returns no error.
		for _, key := range slices.Sorted(maps.Keys(v)) {
			_, _ = fmt.Fprintf(h, ",%d:%s", len(key), key)
			hashPaths(h, v[key])
		}
	case []any:
		_, _ = fmt.Fprintf(h, "[%d", len(v))
		for _, one := range v {
			hashPaths(h, one)
		}
	default:
		_, _ = h.Write([]byte("."))
	}
}

// Contains reports whether an object has all fields of a desired object, with their values. Otherwise path names the first
// field that it lacks, without a value. A list of objects may have more elements than the desired list, and its elements more
// fields, because defaults and admission add some; other lists are equal. A desired field that is null or empty may be absent.
func Contains(actual, desired map[string]any) (path string, ok bool) {
	return contains("", actual, desired)
}

func contains(path string, actual, desired any) (string, bool) {
	switch d := desired.(type) {
	case map[string]any:
		a, ok := actual.(map[string]any)
		if !ok {
			return path, actual == nil && len(d) == 0
		}
		return mapContains(path, a, d)
	case []any:
		a, ok := actual.([]any)
		if !ok {
			return path, actual == nil && len(d) == 0
		}
		return listContains(path, a, d)
	case nil:
		return path, actual == nil
	}
	return path, scalarsEqual(actual, desired)
}

func mapContains(path string, actual, desired map[string]any) (string, bool) {
	for _, key := range slices.Sorted(maps.Keys(desired)) {
		if at, ok := contains(join(path, key), actual[key], desired[key]); !ok {
			return at, false
		}
	}
	return path, true
}

// listContains compares lists of objects in order, and other lists whole.
func listContains(path string, actual, desired []any) (string, bool) {
	if !isObjects(desired) {
		return path, slices.EqualFunc(actual, desired, func(a, d any) bool {
			_, ok := contains("", a, d)
			return ok
		})
	}
	next, differs := 0, ""
	for i, want := range desired {
		at := path + "[" + strconv.Itoa(i) + "]"
		found := false
		for ; next < len(actual) && !found; next++ {
			var where string
			where, found = contains(at, actual[next], want)
			if !found && differs == "" {
				differs = where
			}
		}
		if !found {
			if differs == "" {
				differs = at
			}
			return differs, false
		}
		differs = ""
	}
	return path, true
}

func isObjects(list []any) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(one any) bool {
		_, ok := one.(map[string]any)
		return !ok
	})
}

func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// scalarsEqual compares values; numbers compare by value, whatever they were decoded to.
func scalarsEqual(a, b any) bool {
	x, isNumber := number(a)
	y, alsoNumber := number(b)
	if isNumber && alsoNumber {
		return x == y
	}
	return a == b
}

func number(value any) (string, bool) {
	switch v := value.(type) {
	case int64:
		return strconv.FormatInt(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// Prune removes from an object what apply must not send: the status, the metadata that an API server sets, and nulls.
func Prune(obj map[string]any) {
	delete(obj, "status")
	if metadata, ok := obj["metadata"].(map[string]any); ok {
		for _, key := range []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation", "selfLink"} {
			delete(metadata, key)
		}
	}
	pruneNulls(obj)
}

func pruneNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			if one == nil {
				delete(v, key)
				continue
			}
			pruneNulls(one)
		}
	case []any:
		for _, one := range v {
			pruneNulls(one)
		}
	}
}

var errPointer = errors.New("a JSON pointer begins with a slash")

// Without removes the fields that JSON pointers (RFC 6901) name. A field that the object lacks is no error.
func Without(obj map[string]any, pointers []string) error {
	for _, pointer := range pointers {
		if !strings.HasPrefix(pointer, "/") {
			return fmt.Errorf("%w: %q", errPointer, pointer)
		}
		steps := strings.Split(pointer[1:], "/")
		for i, step := range steps {
			steps[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		}
		remove(obj, steps)
	}
	return nil
}

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
		if err == nil && i >= 0 && i < len(v) && len(steps) > 1 {
			remove(v[i], steps[1:])
		}
	}
}
