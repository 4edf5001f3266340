// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	kjson "sigs.k8s.io/json"
)

// Decode decodes layers of a configuration on top of its defaults, and validates the result, unless a value has another
// type. The error joins all problems.
func Decode[T any](config T, layers []json.RawMessage) (T, error) {
	var problems []error
	typed := true
	for _, layer := range layers {
		if len(layer) == 0 {
			continue
		}
		unknown, err := decodeStrictly(layer, &config)
		typed = typed && err == nil
		if err != nil || len(unknown) > 0 {
			problems = append(problems, fieldProblems[T](layer, errors.Join(append(unknown, err)...))...)
		}
	}
	for i, problem := range problems {
		problems[i] = fmt.Errorf("decode the configuration into %T: %w", config, problem)
	}
	if v, ok := any(&config).(interface{ Validate() error }); ok && typed {
		for _, problem := range joined(v.Validate()) {
			problems = append(problems, fmt.Errorf("the configuration is not valid: %w", problem))
		}
	}
	return config, errors.Join(problems...)
}

// decodeStrictly returns the unknown fields. A list replaces the list before: encoding/json would keep fields of its
// old elements.
func decodeStrictly(layer []byte, into any) (unknown []error, err error) {
	var tree any
	if err := json.Unmarshal(layer, &tree); err != nil {
		return nil, err
	}
	cleared, err := json.Marshal(withoutLists(tree))
	if err != nil {
		return nil, err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(cleared, into); err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(layer, into)
}

// withoutLists replaces every list by null, which empties a slice.
func withoutLists(tree any) any {
	switch tree := tree.(type) {
	case []any:
		return nil
	case map[string]any:
		for key, value := range tree {
			tree[key] = withoutLists(value)
		}
	}
	return tree
}

// fieldProblems decodes each top field alone, because a decoder stops at the first value of another type. If each is
// right, it returns the problems of the whole layer.
func fieldProblems[T any](layer []byte, whole error) []error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(layer, &fields); err != nil {
		return joined(whole)
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, err := json.Marshal(map[string]json.RawMessage{name: fields[name]})
		if err != nil {
			continue // It has been decoded, so it can be encoded.
		}
		unknown, err := decodeStrictly(field, new(T))
		problems = append(problems, unknown...)
		if err != nil {
			problems = append(problems, explainType(name, err))
		}
	}
	if len(problems) == 0 {
		return joined(whole)
	}
	return problems
}

func explainType(field string, err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("field %q: use a value of type %s, not of type %s", wrong.Field, wrong.Type, wrong.Value)
	}
	return fmt.Errorf("field %q: %w", field, err)
}
