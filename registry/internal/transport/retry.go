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

// net/http retries on another connection if the server has closed the first, at once and without a limit: a server that
// sends GOAWAY on each causes five hundred handshakes a second (measured), for one request.
const (
	// connectionsAtOnce without waiting: a restarted HTTP/1.1 server has closed all idle ones.
	connectionsAtOnce = 10
	// connectionsAtMost is in total.
	connectionsAtMost = 15
	// connectionPause comes after connectionsAtOnce, and doubles.
	connectionPause = 50 * time.Millisecond
)

// ErrConnections is the error of a request for which the server has closed too many connections.
var ErrConnections = kubeconfig.NewNotHealthyError(
	"the server closes every connection before it responds",
	"The server closes every connection before it responds; check the proxies and load balancers between the hub and the server.")

// SendLimited sends a request, and returns ErrConnections when it has used too many, also when a deadline passes while
// it waits for another: the server has closed all before, and a slow hub does not make that its timeout.
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
	tooMany := errors.Is(context.Cause(ctx), ErrConnections) || tried > connectionsAtOnce && errors.Is(err, context.DeadlineExceeded)
	if err != nil && tooMany {
		return nil, fmt.Errorf("%w (%w)", ErrConnections, err)
	}
	return response, err
}

func pauseBefore(ctx context.Context, tried int) {
	if tried <= connectionsAtOnce {
		return
	}
	select {
	case <-time.After(connectionPause << (tried - connectionsAtOnce - 1)):
	case <-ctx.Done():
	}
}
