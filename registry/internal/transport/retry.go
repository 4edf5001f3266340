// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// net/http retries a request on another connection if the server has closed the first one. It retries at once and without
// a limit: a server that sends GOAWAY on each connection causes five hundred handshakes a second (measured), for one
// request. These are the limits.
const (
	// connectionsAtOnce is how many connections a request may use without waiting. An HTTP/1.1 server that
	// was restarted has closed all idle connections.
	connectionsAtOnce = 10
	// connectionsAtMost is how many connections a request may use in total.
	connectionsAtMost = 15
	// connectionPause is how long the request waits before the first connection after connectionsAtOnce. The pause doubles.
	connectionPause = 50 * time.Millisecond
)

// ErrConnections is the error of a request for which the server has closed too many connections.
var ErrConnections = kubeconfig.NewNotHealthyError(
	"the server closes every connection before it responds",
	"The server closes every connection before it responds; check the proxies and load balancers between the hub and the server.")

// SendLimited sends a request, and returns ErrConnections when the request has used too many connections. A deadline that
// passes while the request waits for another connection is ErrConnections, too: the server has closed all connections
// before, and a slow hub does not make that a timeout of the server.
func SendLimited(t http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context()) // ends with the context of the request
	tried := 0                                          // used by the goroutine of RoundTrip only
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) {
		tried++
		if tried > connectionsAtMost {
			cancel(ErrConnections)
			return
		}
		pauseBefore(ctx, tried)
	}})
	response, err := t.RoundTrip(r.WithContext(ctx))
	if err != nil && exceeded(errors.Is(context.Cause(ctx), ErrConnections), tried, err) {
		return nil, fmt.Errorf("%w (%w)", ErrConnections, err)
	}
	return response, err
}

// pauseBefore waits before a request uses another connection, if it has used many.
func pauseBefore(ctx context.Context, tried int) {
	if tried <= connectionsAtOnce {
		return
	}
	pause := time.NewTimer(connectionPause << (tried - connectionsAtOnce - 1))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
}

// exceeded reports whether a request has failed because it has used too many connections.
func exceeded(tooMany bool, tried int, err error) bool {
	return tooMany || tried > connectionsAtOnce && errors.Is(err, context.DeadlineExceeded)
}
