// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
)

// Contains reports whether actual has all desired fields and values. Otherwise path names the first that differs,
// without its value. See the package documentation for lists and empty fields.
func Contains(actual, desired map[string]any) (path string, ok bool) {
	d := mapContains(actual, desired)
	return d.path(), d == nil
}

func contains(actual, desired any) *difference {
	switch d := desired.(type) {
	case nil:
		return nil // See More.
	case map[string]any:
		if a, ok := actual.(map[string]any); ok {
			return mapContains(a, d)
		}
		return unless(actual == nil && len(d) == 0)
	case []any:
		if a, ok := actual.([]any); ok {
			return listContains(a, d)
		}
		return unless(actual == nil && len(d) == 0)
	}
	return unless(equal(actual, desired))
}

func mapContains(actual, desired map[string]any) *difference {
	// Keys are not sorted, because most objects are as desired. Of several differences the first by key is returned.
	var first *difference
	for key, want := range desired {
		if first != nil && first.key < key {
			continue
		}
		d := contains(actual[key], want)
		if key == "finalizers" {
			d = setContains(actual[key], want)
		}
		if d != nil {
			first = &difference{kind: inMap, key: key, next: d}
		}
	}
	return first
}

func equal(a, b any) bool {
	switch want := b.(type) {
	case nil:
		return a == nil
	case string:
		is, ok := a.(string)
		return ok && is == want
	case bool:
		is, ok := a.(bool)
		return ok && is == want
	}
	x, isNumber := numberOf(a)
	y, alsoNumber := numberOf(b)
	if isNumber && alsoNumber {
		return x == y
	}
	return reflect.DeepEqual(a, b)
}

type number struct {
	whole int64
	float float64
}

func numberOf(value any) (number, bool) {
	switch v := value.(type) {
	case int64:
		return number{whole: v}, true
	case int:
		return number{whole: int64(v)}, true
	case int32:
		return number{whole: int64(v)}, true
	case float64:
		return ofFloat(v), true
	case json.Number:
		if whole, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return number{whole: whole}, true
		}
		float, err := v.Float64()
		return ofFloat(float), err == nil
	}
	return number{}, false
}

// ofFloat: below 2^63 each integer that a float can have is exact.
func ofFloat(float float64) number {
	if float == math.Trunc(float) && float >= -1<<63 && float < 1<<63 {
		return number{whole: int64(float)}
	}
	return number{float: float}
}
