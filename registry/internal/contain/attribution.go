// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

// In returns a context that acts on behalf of the module.
func (g *Container) In(ctx context.Context) context.Context {
	if GuardOf(ctx) == g {
		return ctx
	}
	return context.WithValue(ctx, guardKey{}, g)
}

// Config returns a configuration for clients of the module, whose transport knows that.
func (g *Container) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.Transport != nil {
		config.Transport = g.RoundTripper(config.Transport)
		return config
	}
	config.Wrap(g.RoundTripper)
	return config
}

// RoundTripper returns a transport whose requests are on behalf of the module.
func (g *Container) RoundTripper(next http.RoundTripper) http.RoundTripper {
	return attributed{next, g}
}

type attributed struct {
	next  http.RoundTripper
	guard *Container
}

// Reads are not attributed: nothing depends on it, and it takes a copy of the request.
func (a attributed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || GuardOf(r.Context()) == a.guard {
		return a.next.RoundTrip(r)
	}
	return a.next.RoundTrip(r.WithContext(a.guard.In(r.Context())))
}

func (a attributed) WrappedRoundTripper() http.RoundTripper { return a.next }

// Client returns a client whose writes are on behalf of the module. A delete of an object that was read has its UID as
// a precondition, so that it does not delete another one of the same name.
func (g *Container) Client(c client.Client) client.Client {
	return moduleClient{cache.Around(func(ctx context.Context, of cache.Call, call func(context.Context) error) error {
		if !of.IsRead() {
			ctx = g.In(ctx)
		}
		return call(ctx)
	}).Client(c)}
}

type moduleClient struct{ client.Client }

func (c moduleClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	uid := obj.GetUID()
	before := client.Preconditions{}
	if o := (&client.DeleteOptions{}).ApplyOptions(opts); o.Preconditions != nil {
		before = client.Preconditions(*o.Preconditions)
	}
	if uid == "" || before.UID != nil {
		return c.Client.Delete(ctx, obj, opts...)
	}
	before.UID = &uid
	err := c.Client.Delete(ctx, obj, append(opts[:len(opts):len(opts)], before)...)
	if apierrors.IsConflict(err) {
		return &replacedError{err}
	}
	return err
}

// replacedError is the conflict of a delete whose object was replaced since the module read it.
type replacedError struct{ conflict error }

func (e *replacedError) Error() string { return e.conflict.Error() }

func (e *replacedError) Unwrap() error { return e.conflict }
