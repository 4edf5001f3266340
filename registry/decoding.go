// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Decoders quote what they cannot decode: a time, an object without a kind, a kind that the scheme does not know. What
// is in this file keeps that out of the errors of an app's clients. It does not ask what a decoder said: an error that
// comes after a response has arrived in full is one.

// decoding calls a function that sends a request and decodes the response. An error of the decoder gets a fixed text, and
// so does a Status in a response that accepts the request.
func decoding(ctx context.Context, what string, call func(ctx context.Context) error) error {
	ctx, x := transport.WithExchange(ctx)
	err := call(ctx)
	var panicked *panics.Error
	switch {
	case err == nil, !x.Arrived(), errors.As(err, &panicked):
		return err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("decode the response to %s (%s): %w", what, kindOfError(err), context.Cause(ctx))
	}
	return fmt.Errorf("decode the response to %s (%s): %w", what, kindOfError(err), kubeconfig.ErrNotKubernetes)
}

// kindOfError names the type of the innermost error.
func kindOfError(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return fmt.Sprintf("%T", err)
}

// decodingManager is a manager whose reader is a decodingReader. Its client is a decodingClient already.
type decodingManager struct{ ctrl.Manager }

// GetAPIReader returns the reader.
func (m decodingManager) GetAPIReader() client.Reader {
	return decodingReader{m.Manager.GetAPIReader()}
}

// decodingReader is a reader whose errors quote no response.
type decodingReader struct{ inner client.Reader }

// Get reads one object.
func (r decodingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return decoding(ctx, naming("get", obj), func(ctx context.Context) error { return r.inner.Get(ctx, key, obj, opts...) })
}

// List reads objects.
func (r decodingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return decoding(ctx, naming("list", list), func(ctx context.Context) error { return r.inner.List(ctx, list, opts...) })
}

func naming(verb string, obj any) string { return fmt.Sprintf("%s %T", verb, obj) }

// decodingClient is a client whose errors quote no response.
type decodingClient struct {
	client.Client
	decodingReader
}

var _ client.Client = decodingClient{}

func newDecodingClient(inner client.Client, err error) (client.Client, error) {
	if err != nil {
		return nil, err
	}
	return decodingClient{inner, decodingReader{inner}}, nil
}

// Get reads one object.
func (c decodingClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.decodingReader.Get(ctx, key, obj, opts...)
}

// List reads objects.
func (c decodingClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.decodingReader.List(ctx, list, opts...)
}

// Apply applies a configuration.
func (c decodingClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return decoding(ctx, naming("apply", obj), func(ctx context.Context) error { return c.Client.Apply(ctx, obj, opts...) })
}

// Create creates an object.
func (c decodingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return decoding(ctx, naming("create", obj), func(ctx context.Context) error { return c.Client.Create(ctx, obj, opts...) })
}

// Delete deletes an object.
func (c decodingClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return decoding(ctx, naming("delete", obj), func(ctx context.Context) error { return c.Client.Delete(ctx, obj, opts...) })
}

// Update updates an object.
func (c decodingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return decoding(ctx, naming("update", obj), func(ctx context.Context) error { return c.Client.Update(ctx, obj, opts...) })
}

// Patch patches an object.
func (c decodingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return decoding(ctx, naming("patch", obj), func(ctx context.Context) error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

// DeleteAllOf deletes objects.
func (c decodingClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return decoding(ctx, naming("delete all", obj), func(ctx context.Context) error { return c.Client.DeleteAllOf(ctx, obj, opts...) })
}

// Status returns a client for the status.
func (c decodingClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource returns a client for a subresource.
func (c decodingClient) SubResource(name string) client.SubResourceClient {
	return decodingSubResource{c.Client.SubResource(name), name}
}

// decodingSubResource is a client for a subresource whose errors quote no response.
type decodingSubResource struct {
	inner client.SubResourceClient
	name  string
}

func (c decodingSubResource) naming(verb string, obj any) string {
	return naming(verb, obj) + ", " + c.name
}

// Get reads the subresource.
func (c decodingSubResource) Get(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceGetOption) error {
	return decoding(ctx, c.naming("get", obj), func(ctx context.Context) error { return c.inner.Get(ctx, obj, sub, opts...) })
}

// Create creates the subresource.
func (c decodingSubResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return decoding(ctx, c.naming("create", obj), func(ctx context.Context) error { return c.inner.Create(ctx, obj, sub, opts...) })
}

// Update updates the subresource.
func (c decodingSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return decoding(ctx, c.naming("update", obj), func(ctx context.Context) error { return c.inner.Update(ctx, obj, opts...) })
}

// Patch patches the subresource.
func (c decodingSubResource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return decoding(ctx, c.naming("patch", obj), func(ctx context.Context) error { return c.inner.Patch(ctx, obj, patch, opts...) })
}

// Apply applies a configuration of the subresource.
func (c decodingSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return decoding(ctx, c.naming("apply", obj), func(ctx context.Context) error { return c.inner.Apply(ctx, obj, opts...) })
}
