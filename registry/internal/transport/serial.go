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

// Serial sends requests one after the other, with the limits of SendLimited. Its requests share one trace, so that a request
// that is sent again and again makes little garbage.
type Serial struct {
	base http.RoundTripper
	ctx  context.Context //nolint:containedctx // It carries the trace, and ends with the owner of the Serial.

	// The fields below belong to the current request, and are used by the goroutine of RoundTrip only.
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

// Conn returns the connection of the last request, or nil if that got none.
func (s *Serial) Conn() net.Conn { return s.conn }

// limit ends the request if it has used too many connections, and waits before it uses many.
func (s *Serial) limit() {
	s.tried++
	if s.tried > connectionsAtMost {
		s.cancel()
		return
	}
	pauseBefore(s.current, s.tried)
}

// Send sends a copy of a request without a body, and calls read with the response, within a timeout. It closes the body of
// the response. The context of the request is not used.
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
