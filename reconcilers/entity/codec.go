// SPDX-License-Identifier: Apache-2.0

package entity

import (
	"encoding/json"
	"fmt"
)

// Codec converts between values and the bytes in a bucket.
type Codec[T any] interface {
	// Decode returns the value. An error says what is wrong, without the bytes.
	Decode(data []byte) (T, error)
	// Encode returns the bytes of a value that replaces previous, which is nil for a new key. Fields of previous that T does not
	// have stay: they belong to a later version of the program.
	Encode(value T, previous []byte) ([]byte, error)
}

// JSON returns a codec for JSON objects. validate may be nil; Decode and Encode return its error.
func JSON[T any](validate func(T) error) Codec[T] { return jsonCodec[T]{validate: validate} }

type jsonCodec[T any] struct{ validate func(T) error }

func (c jsonCodec[T]) Decode(data []byte) (T, error) {
	var value T
	if err := json.Unmarshal(data, &value); err != nil {
		return value, fmt.Errorf("the value is not the JSON of a %T: %w", value, withoutText(err))
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
	var known T
	if json.Unmarshal(previous, &known) != nil {
		return data, nil // Nothing of it can be kept.
	}
	understood, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	var before, part, now any
	for text, into := range map[*[]byte]*any{&previous: &before, &understood: &part, &data: &now} {
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, err
		}
	}
	return json.Marshal(keep(before, part, now))
}

// keep returns now with the fields of before that are not understood. In lists it keeps them by index, if no element was added or
// removed.
func keep(before, understood, now any) any {
	switch b := before.(type) {
	case map[string]any:
		u, isMap := understood.(map[string]any)
		n, stays := now.(map[string]any)
		if !isMap || !stays {
			return now
		}
		for key, value := range b {
			if _, known := u[key]; !known {
				if _, set := n[key]; !set {
					n[key] = value
				}
				continue
			}
			if _, set := n[key]; set {
				n[key] = keep(value, u[key], n[key])
			}
		}
	case []any:
		u, isList := understood.([]any)
		n, stays := now.([]any)
		if !isList || !stays || len(u) != len(b) || len(n) != len(b) {
			return now
		}
		for i := range b {
			n[i] = keep(b[i], u[i], n[i])
		}
	}
	return now
}

// withoutText returns an error of encoding/json without the value in it, which another party wrote.
func withoutText(err error) error {
	switch e := err.(type) { //nolint:errorlint // encoding/json wraps none of these.
	case *json.UnmarshalTypeError:
		return fmt.Errorf("field %s is not a %s", e.Field, e.Type)
	case *json.SyntaxError:
		return fmt.Errorf("syntax error at byte %d", e.Offset)
	}
	return errNotJSON
}
