// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"io"
	"net/http"

	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// partTransport sends what a hub part asks of the hub's API server: with the module's name, and no longer than the
// life of the part.
type partTransport struct {
	next   http.RoundTripper
	fence  context.Context //nolint:containedctx // As that of a chain.
	module string

	declared *rulebook
}

// moduleNameKey is the key under which the context of a request carries the module that sends it.
type moduleNameKey struct{}

// HubPartOf returns the module whose hub part sends the request that a context belongs to, or nothing. It is for
// transports below that of the part.
func HubPartOf(ctx context.Context) string {
	name, _ := ctx.Value(moduleNameKey{}).(string)
	return name
}

// RoundTrip sends the request, unless the part has ended.
func (t *partTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), moduleNameKey{}, t.module))
	unhook := context.AfterFunc(t.fence, func() { cancel(context.Cause(t.fence)) })
	end := func() {
		unhook()
		cancel(nil)
	}
	if t.fence.Err() != nil {
		end()
		return transport.Refuse(r, context.Cause(t.fence))
	}
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	t.declared.judge(r, response.StatusCode)
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection
		return response, nil
	}
	response.Body = &fencedBody{ReadCloser: response.Body, end: end}
	return response, nil
}

// WrappedRoundTripper returns the transport below, as client-go likes to know.
func (t *partTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// fencedBody ends the context of its request when it is closed.
type fencedBody struct {
	io.ReadCloser
	end func()
}

// Close closes the body.
func (b *fencedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
