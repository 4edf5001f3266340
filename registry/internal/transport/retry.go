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

// net/http tries a request again, on another connection, when the one that it was to go out on turns
// out to be closed. It does so at once and for as long as the server goes on closing them: a server
// that answers each connection with GOAWAY makes it shake hands five hundred times a second
// (measured), for one request. These are the bounds.
const (
	// connectionsAtOnce is how many connections a request may try without waiting. An HTTP/1.1 server
	// that was restarted has closed all of those that were idle.
	connectionsAtOnce = 10
	// connectionsAtMost is how many it may try at all.
	connectionsAtMost = 15
	// connectionPause is how long it waits before the next one, the first time. The pause doubles.
	connectionPause = 50 * time.Millisecond
)

// ErrConnections is the error of a request for which the server has closed too many connections.
var ErrConnections = kubeconfig.NewNotHealthyError(
	"the server closes every connection before it has answered",
	"The server closes every connection before it has answered; look at whatever stands between the hub and it.")

// SendLimited sends a request, and gives it up with errConnections when it has tried too many
// connections. A deadline that passes while the request waits to try another connection is errConnections, too: the
// server has closed all connections before, and a slow hub does not make that a timeout of the server.
func SendLimited(t http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context()) // which ends with the request's own
	tried := 0                                          // by the goroutine of RoundTrip alone
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) {
		tried++
		if tried > connectionsAtMost {
			cancel(ErrConnections)
			return
		}
		if tried <= connectionsAtOnce {
			return
		}
		pause := time.NewTimer(connectionPause << (tried - connectionsAtOnce - 1))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}})
	response, err := t.RoundTrip(r.WithContext(ctx))
	tooMany := errors.Is(context.Cause(ctx), ErrConnections)
	tooLate := tried > connectionsAtOnce && errors.Is(err, context.DeadlineExceeded)
	if err != nil && (tooMany || tooLate) {
		return nil, fmt.Errorf("%w (%w)", ErrConnections, err)
	}
	return response, err
}
