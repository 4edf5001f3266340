// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// Serial sends requests one by one, limited like SendLimited. They share one trace, to make little garbage.
type Serial struct {
	base http.RoundTripper
	ctx  context.Context //nolint:containedctx // It carries the trace, and ends with the owner of the Serial.

	// Below: the current request's, for RoundTrip's goroutine.
	current context.Context //nolint:containedctx // It ends with the request.
	cancel  context.CancelFunc
	tried   int
	conn    net.Conn
}

// NewSerial returns a Serial whose requests end with ctx.
func NewSerial(ctx context.Context, base http.RoundTripper) *Serial {
	s := &Serial{base: base}
	s.ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.limit() },
		GotConn: func(got httptrace.GotConnInfo) { s.conn = got.Conn },
	})
	return s
}

// Conn returns the connection of the last request, or nil.
func (s *Serial) Conn() net.Conn { return s.conn }

// limit ends a request with too many connections, and delays one with many.
func (s *Serial) limit() {
	s.tried++
	if s.tried > connectionsAtMost {
		s.cancel()
		return
	}
	pauseBefore(s.current, s.tried)
}

// Send sends a copy of a request without a body, with a timeout in place of its context, calls read with the response,
// and closes its body.
func (s *Serial) Send(request *http.Request, timeout time.Duration, read func(*http.Response) error) error {
	s.current, s.cancel = context.WithTimeout(s.ctx, timeout)
	s.tried, s.conn = 0, nil
	defer s.cancel()
	response, err := s.base.RoundTrip(request.WithContext(s.current))
	if err != nil {
		if exceeded(s.tried > connectionsAtMost, s.tried, err) {
			return fmt.Errorf("%w (%w)", ErrConnections, err)
		}
		return err
	}
	defer response.Body.Close()
	return read(response)
}
