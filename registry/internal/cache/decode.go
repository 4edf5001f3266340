// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// CheckDecoded calls a function that sends a request and decodes the response. Errors of the decoder, and a Status in a
// response that accepts the request, get a fixed text, which names what was called: a text, or a Call. The error of an ended
// context matches its cause, too, since client-go returns ctx.Err().
func CheckDecoded(ctx context.Context, what any, call func(ctx context.Context) error) error {
	ctx, x := transport.WithExchange(ctx)
	err := call(ctx)
	var panicked *panics.Error
	switch {
	case err == nil, errors.As(err, &panicked):
		return err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			return fmt.Errorf("%w (%w)", cause, err)
		}
		return err
	case !x.Arrived():
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("decode the response to %v (%s): %w", what, kindOfError(err), context.Cause(ctx))
	}
	if misfit := misfitIn(err); misfit != nil {
		return fmt.Errorf("decode the response to %v: %w", what, misfit)
	}
	return fmt.Errorf("decode the response to %v (%s): %w", what, kindOfError(err), kubeconfig.ErrNotKubernetes)
}

// ErrMisfit is wrapped by the error of an object that the Go type of its kind cannot hold.
var ErrMisfit = errors.New("an object does not fit the Go type of its kind")

// misfitIn names the field and the types of Go and JSON, but not the value; nil for other errors.
func misfitIn(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" || wrong.Type == nil {
		return nil
	}
	is, _, _ := strings.Cut(wrong.Value, " ") // A number has its value.
	field := strings.TrimPrefix(wrong.Field, "items.")
	text := fmt.Sprintf("the field %s has a JSON %s, which the Go type %s cannot hold", field, is, wrong.Type)
	return fmt.Errorf("%w: %w", ErrMisfit, kubeconfig.NewNotHealthyError(text,
		"An object does not fit the Go type of its kind: "+text+"; correct the object, its definition, or the type in the module."))
}

func kindOfError(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return fmt.Sprintf("%T", err)
}
