// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Call is a call of a client.
type Call struct {
	Verb, Subresource string
	Object            any
}

// String is as "update *v1.Pod, status".
func (c Call) String() string {
	if c.Subresource == "" {
		return fmt.Sprintf("%s %T", c.Verb, c.Object)
	}
	return fmt.Sprintf("%s %T, %s", c.Verb, c.Object, c.Subresource)
}

// IsRead reports whether the call changes nothing.
func (c Call) IsRead() bool { return c.Verb == "get" || c.Verb == "list" }

// Around is a function that makes the calls of a client.
type Around func(ctx context.Context, of Call, call func(context.Context) error) error

// Client returns a client whose calls are made by the function.
func (a Around) Client(inner client.Client) client.Client { return aroundClient{inner, a} }

// CheckedReader returns a reader whose errors quote no response.
func CheckedReader(inner client.Reader) client.Reader { return aroundReader{inner, checked} }

// NewCheckedClient returns a client whose errors quote no response. It takes the results of client.New.
func NewCheckedClient(inner client.Client, err error) (client.Client, error) {
	if err != nil {
		return nil, err
	}
	return Around(checked).Client(inner), nil
}

func checked(ctx context.Context, of Call, call func(context.Context) error) error {
	return CheckDecoded(ctx, of, call)
}

type aroundReader struct {
	client.Reader
	Around
}

func (r aroundReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return r.Around(ctx, Call{Verb: "get", Object: obj}, func(ctx context.Context) error { return r.Reader.Get(ctx, key, obj, opts...) })
}

func (r aroundReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.Around(ctx, Call{Verb: "list", Object: list}, func(ctx context.Context) error { return r.Reader.List(ctx, list, opts...) })
}

type aroundClient struct {
	client.Client
	around Around
}

func (c aroundClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return aroundReader{c.Client, c.around}.Get(ctx, key, obj, opts...)
}

func (c aroundClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return aroundReader{c.Client, c.around}.List(ctx, list, opts...)
}

func (c aroundClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return c.around(ctx, Call{Verb: "apply", Object: obj}, func(ctx context.Context) error { return c.Client.Apply(ctx, obj, opts...) })
}

func (c aroundClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.around(ctx, Call{Verb: "create", Object: obj}, func(ctx context.Context) error { return c.Client.Create(ctx, obj, opts...) })
}

func (c aroundClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.around(ctx, Call{Verb: "delete", Object: obj}, func(ctx context.Context) error { return c.Client.Delete(ctx, obj, opts...) })
}

func (c aroundClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.around(ctx, Call{Verb: "update", Object: obj}, func(ctx context.Context) error { return c.Client.Update(ctx, obj, opts...) })
}

func (c aroundClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.around(ctx, Call{Verb: "patch", Object: obj}, func(ctx context.Context) error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

func (c aroundClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	return c.around(ctx, Call{Verb: "delete all", Object: obj}, func(ctx context.Context) error { return c.Client.DeleteAllOf(ctx, obj, opts...) })
}

func (c aroundClient) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c aroundClient) SubResource(name string) client.SubResourceClient {
	return aroundSubresource{c.Client.SubResource(name), name, c.around}
}

type aroundSubresource struct {
	inner  client.SubResourceClient
	name   string
	around Around
}

func (s aroundSubresource) Get(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceGetOption) error {
	return s.around(ctx, Call{"get", s.name, obj}, func(ctx context.Context) error { return s.inner.Get(ctx, obj, sub, opts...) })
}

func (s aroundSubresource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	return s.around(ctx, Call{"create", s.name, obj}, func(ctx context.Context) error { return s.inner.Create(ctx, obj, sub, opts...) })
}

func (s aroundSubresource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.around(ctx, Call{"update", s.name, obj}, func(ctx context.Context) error { return s.inner.Update(ctx, obj, opts...) })
}

func (s aroundSubresource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return s.around(ctx, Call{"patch", s.name, obj}, func(ctx context.Context) error { return s.inner.Patch(ctx, obj, patch, opts...) })
}

func (s aroundSubresource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return s.around(ctx, Call{"apply", s.name, obj}, func(ctx context.Context) error { return s.inner.Apply(ctx, obj, opts...) })
}
