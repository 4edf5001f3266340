// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// CheckDecoded calls a function that sends a request and decodes the response. Errors of the decoder, and a Status in a
// response that accepts the request, get a fixed text. The error of an ended context matches its cause, too, since
// client-go returns ctx.Err().
func CheckDecoded(ctx context.Context, what string, call func(ctx context.Context) error) error {
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
		return fmt.Errorf("decode the response to %s (%s): %w", what, kindOfError(err), context.Cause(ctx))
	}
	if misfit := misfitIn(err); misfit != nil {
		return fmt.Errorf("decode the response to %s: %w", what, misfit)
	}
	return fmt.Errorf("decode the response to %s (%s): %w", what, kindOfError(err), kubeconfig.ErrNotKubernetes)
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

// CheckedManager has an APIReader that quotes no response. Its client must be one of NewCheckedClient.
type CheckedManager struct{ ctrl.Manager }

// GetAPIReader returns the reader.
func (m CheckedManager) GetAPIReader() client.Reader {
	return checkedReader{m.Manager.GetAPIReader()}
}

type checkedReader struct{ inner client.Reader }

func (r checkedReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return CheckDecoded(ctx, naming("get", obj), func(ctx context.Context) error { return r.inner.Get(ctx, key, obj, opts...) })
}

func (r checkedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return CheckDecoded(ctx, naming("list", list), func(ctx context.Context) error { return r.inner.List(ctx, list, opts...) })
}

func naming(verb string, obj any) string { return fmt.Sprintf("%s %T", verb, obj) }

type quietClient struct {
	client.Client
	checkedReader
}

var _ client.Client = quietClient{}

// NewCheckedClient returns a client whose errors quote no response. It takes the results of client.New.
func NewCheckedClient(inner client.Client, err error) (client.Client, error) {
	if err != nil {
		return nil, err
	}
	return quietClient{inner, checkedReader{inner}}, nil
}

func (c quietClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.checkedReader.Get(ctx, key, obj, opts...)
}

func (c quietClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.checkedReader.List(ctx, list, opts...)
}

func (c quietClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return CheckDecoded(ctx, naming("apply", obj), func(ctx context.Context) error { return c.Client.Apply(ctx, obj, opts...) })
}

func (c quietClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return CheckDecoded(ctx, naming("create", obj), func(ctx context.Context) error { return c.Client.Create(ctx, obj, opts...) })
}

func (c quietClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return CheckDecoded(ctx, naming("delete", obj), func(ctx context.Context) error { return c.Client.Delete(ctx, obj, opts...) })
}

func (c quietClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return CheckDecoded(ctx, naming("update", obj), func(ctx context.Context) error { return c.Client.Update(ctx, obj, opts...) })
}

func (c quietClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return CheckDecoded(ctx, naming("patch", obj), func(ctx context.Context) error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

func (c quietClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return CheckDecoded(ctx, naming("delete all", obj), func(ctx context.Context) error { return c.Client.DeleteAllOf(ctx, obj, opts...) })
}

func (c quietClient) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c quietClient) SubResource(name string) client.SubResourceClient {
	return subResource{c.Client.SubResource(name), name}
}

type subResource struct {
	inner client.SubResourceClient
	name  string
}

func (c subResource) naming(verb string, obj any) string {
	return naming(verb, obj) + ", " + c.name
}

func (c subResource) Get(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceGetOption) error {
	return CheckDecoded(ctx, c.naming("get", obj), func(ctx context.Context) error { return c.inner.Get(ctx, obj, sub, opts...) })
}

func (c subResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return CheckDecoded(ctx, c.naming("create", obj), func(ctx context.Context) error { return c.inner.Create(ctx, obj, sub, opts...) })
}

func (c subResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return CheckDecoded(ctx, c.naming("update", obj), func(ctx context.Context) error { return c.inner.Update(ctx, obj, opts...) })
}

func (c subResource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return CheckDecoded(ctx, c.naming("patch", obj), func(ctx context.Context) error { return c.inner.Patch(ctx, obj, patch, opts...) })
}

func (c subResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return CheckDecoded(ctx, c.naming("apply", obj), func(ctx context.Context) error { return c.inner.Apply(ctx, obj, opts...) })
}
