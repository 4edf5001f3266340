// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Codec converts between values and the bytes in a bucket.
type Codec[T any] interface {
	// Decode's error names the wrong field, and must repeat nothing of the bytes.
	Decode(data []byte) (T, error)
	// Encode must keep fields of previous (nil for a new key) that T lacks: they belong to a later version of the
	// program.
	Encode(value T, previous []byte) ([]byte, error)
}

var (
	// errValue replaces the error of a type that decodes itself, which may repeat the value.
	errValue = errors.New("a field has a value that its type does not accept")
	// errNull: encoding/json takes null for the zero value of each type.
	errNull = errors.New("the value is null; delete the key in its place")
)

// JSON returns a codec for JSON objects. validate may be nil; Decode and Encode return its error.
func JSON[T any](validate func(T) error) Codec[T] { return jsonCodec[T]{validate: validate} }

// CheckJSON returns a check for registry.Input. Unlike a codec it refuses fields that T lacks: the user may have
// mistyped one. validate may be nil.
func CheckJSON[T any](validate func(T) error) func(data []byte) error {
	codec := jsonCodec[T]{validate: validate}
	return func(data []byte) error {
		if _, err := codec.Decode(data); err != nil {
			return err
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		return decoder.Decode(new(T))
	}
}

type jsonCodec[T any] struct{ validate func(T) error }

func (c jsonCodec[T]) Decode(data []byte) (T, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, fmt.Errorf("the value is not the JSON of a %T: %w", value, withoutText(err))
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return value, errNull
	}
	return value, c.check(value)
}

func (c jsonCodec[T]) check(value T) error {
	if c.validate == nil {
		return nil
	}
	if err := c.validate(value); err != nil {
		return fmt.Errorf("the value is invalid: %w", err)
	}
	return nil
}

func (c jsonCodec[T]) Encode(value T, previous []byte) ([]byte, error) {
	if err := c.check(value); err != nil {
		return nil, err
	}
	data, err := json.Marshal(value)
	if err != nil || previous == nil {
		return data, err
	}
	return keepUnknown[T](data, previous)
}

// keepUnknown keeps nothing of a previous value that is no T.
func keepUnknown[T any](data, previous []byte) ([]byte, error) {
	var known T
	var before, part, now any
	if !isJSON(previous, &known) || !isJSON(previous, &before) {
		return data, nil
	}
	understood, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.Unmarshal(understood, &part), json.Unmarshal(data, &now)); err != nil {
		return nil, err
	}
	return json.Marshal(keep(before, part, now))
}

// SameJSON ignores the order of fields and white space.
func SameJSON(a, b []byte) bool {
	var one, two any
	return isJSON(a, &one) && isJSON(b, &two) && reflect.DeepEqual(one, two)
}

func isJSON(data []byte, into any) bool { return json.Unmarshal(data, into) == nil }

// keep returns now with the fields of before that are not understood; in lists by index, if their lengths are equal.
func keep(before, understood, now any) any {
	switch b := before.(type) {
	case map[string]any:
		u, isMap := understood.(map[string]any)
		if n, stays := now.(map[string]any); isMap && stays {
			keepFields(b, u, n)
		}
	case []any:
		u, isList := understood.([]any)
		n, stays := now.([]any)
		if isList && stays && len(u) == len(b) && len(n) == len(b) {
			for i := range b {
				n[i] = keep(b[i], u[i], n[i])
			}
		}
	}
	return now
}

func keepFields(before, understood, now map[string]any) {
	for key, value := range before {
		part, isUnderstood := understood[key]
		_, isSet := now[key]
		switch {
		case isUnderstood && isSet:
			now[key] = keep(value, part, now[key])
		case !isUnderstood && !isSet:
			now[key] = value
		}
	}
}

func withoutText(err error) error {
	switch e := err.(type) { //nolint:errorlint // encoding/json wraps none of these.
	case *json.UnmarshalTypeError:
		return fmt.Errorf("field %s is not a %s", e.Field, e.Type)
	case *json.SyntaxError:
		return fmt.Errorf("syntax error at byte %d", e.Offset)
	}
	return errValue
}
