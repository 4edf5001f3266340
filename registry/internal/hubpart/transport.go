// SPDX-License-Identifier: Apache-2.0

package hubpart

import (
	"context"
	"net/http"

	"github.com/clusterfx/clusterfx/internal/writegate"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// fencedTransport sends requests of a hub part no longer than its life.
type fencedTransport struct {
	next  http.RoundTripper
	fence context.Context //nolint:containedctx // As in a transport chain.

	deletes transport.Interceptor
}

func (t *fencedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end := transport.Within(r.Context(), t.fence)
	if t.fence.Err() != nil {
		end()
		return writegate.Refuse(r, context.Cause(t.fence), transport.Refuse)
	}
	response, err := t.deletes(r.WithContext(ctx), t.next.RoundTrip)
	if err != nil {
		end()
		return nil, err
	}
	transport.Observe(r, response)
	if response.StatusCode == http.StatusSwitchingProtocols { // its body is the connection
		return response, nil
	}
	response.Body = transport.OnClose(response.Body, end)
	return response, nil
}

func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
