// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// Bounds of the transport chain that no configuration widens. What an answer may be is in answer.go.
const (
	// maxRetryAfter is how long a remote may make client-go wait before a retry. client-go
	// honours any number of seconds, ten times in a row.
	maxRetryAfter = 10 * time.Second
	// listTimeout bounds a whole list, which of a large cluster takes longer than other requests.
	listTimeout = 10 * time.Minute
)

// chain describes the transport that every client of one epoch shares, for one side of it: the
// remote, or the hub. Whatever an app sends passes these layers, outermost first:
//
//	deadline -> decorations -> connections -> rate limit -> user agent -> answers judged, amended and bounded
//	-> fence -> gate -> base (which authenticates, and guards the dial)
//
// Nothing can wait between the fence and the wire, so that a request is either refused or sent.
type chain struct {
	base      http.RoundTripper
	fence     context.Context //nolint:containedctx // The fence is a context: the end of an epoch, seen by every request.
	gate      func() error    // refuses mutating requests while it returns an error; nil is open
	limiter   *rate.Limiter
	userAgent string
	timeout   time.Duration  // of one request that is neither a list nor a stream
	intake    *meter.Limiter // bounds what answers may turn into
	heard     *atomic.Int64  // when a list last brought something, in nanoseconds; may be nil
	// decorated is send with the operator's decorations around it; nil without any.
	decorated http.RoundTripper
	traffic   *traffic // counts requests; nil counts nothing
	around    around   // nil for none
	// judge is called with the status of each response; nil for none.
	judge func(r *http.Request, status int)
}

// around is called with each request before anything else, and sends it, such as within a span.
type around func(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error)

// RoundTrip sends the request through the layers.
func (c *chain) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.around == nil {
		return c.roundTrip(r)
	}
	return c.around(r, c.roundTrip)
}

func (c *chain) roundTrip(r *http.Request) (*http.Response, error) {
	kind := kindOf(r)
	own := r.Context()
	ctx, cancel := c.bound(own, kind)
	r = r.WithContext(ctx)
	response, err := c.pass(r, kind)
	if err != nil {
		cause := context.Cause(ctx)
		cancel()
		if cause != nil && own.Err() == nil {
			return nil, fmt.Errorf("%w (%w)", cause, err)
		}
		return nil, err
	}
	exchangeOf(own).answered(response)
	if c.judge != nil {
		c.judge(r, response.StatusCode)
	}
	if kind == kindStream && response.StatusCode != http.StatusOK {
		// It is no stream: client-go reads it to its end before it says so.
		kind = kindUnary
		timer := time.AfterFunc(c.timeout, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	response.Body = c.boundBody(r, response, kind, cancel)
	return response, nil
}

// bound returns a context that ends with the request's own, at the deadline of its kind, and
// when the fence closes, with ErrStopped as its cause then.
func (c *chain) bound(ctx context.Context, kind requestKind) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.fence, func() { cancel(context.Cause(c.fence)) })
	done := func() {
		unhook()
		cancel(nil)
	}
	timeout := c.timeout
	switch kind {
	case kindStream:
		return ctx, done
	case kindList:
		timeout = listTimeout
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s: %w", timeout, context.DeadlineExceeded))
	return ctx, func() {
		stop()
		done()
	}
}

// pass sends the request by way of the decorations.
func (c *chain) pass(r *http.Request, kind requestKind) (*http.Response, error) {
	if c.decorated != nil {
		return c.decorated.RoundTrip(r)
	}
	return c.send(r, kind)
}

// afterDecorations returns the part of the chain that comes after the decorations.
func (c *chain) afterDecorations() http.RoundTripper { return sender{c} }

// sender is the part of a chain that comes after the decorations.
type sender struct{ *chain }

// RoundTrip sends the request.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) { return s.send(r, kindOf(r)) }

func (c *chain) send(r *http.Request, kind requestKind) (*http.Response, error) {
	if c.limiter != nil {
		began := time.Now()
		err := c.limiter.Wait(r.Context())
		c.traffic.waited(time.Since(began))
		if err != nil {
			return refuse(r, fmt.Errorf("wait for the rate limit of this app: %w", err))
		}
	}
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", c.userAgent)
	if c.fence.Err() != nil {
		return refuse(r, context.Cause(c.fence))
	}
	if c.gate != nil && mutates(r) {
		if err := c.gate(); err != nil {
			return refuse(r, err)
		}
	}
	response, err := withFewConnections(c.base, r)
	if err != nil {
		c.traffic.answered(0)
		return nil, err
	}
	c.traffic.answered(response.StatusCode)
	if err := c.check(r, response, kind); err != nil {
		response.Body.Close()
		return nil, err
	}
	return response, nil
}

// refuse ends a request that is not sent; a RoundTripper closes its body all the same.
func refuse(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, err
}

// requestKind says how long a request may take and what it may bring.
type requestKind int

const (
	kindUnary  requestKind = iota
	kindList               // of a whole collection
	kindStream             // a watch, or a log that is followed: ends when its reader ends it
)

func kindOf(r *http.Request) requestKind {
	query := r.URL.Query()
	switch {
	case isTrue(query.Get("watch")), isTrue(query.Get("follow")):
		return kindStream
	case r.Method == http.MethodGet && requestinfo.Of(r.URL.Path).IsCollection():
		return kindList
	}
	return kindUnary
}

// isStream reports whether the response to a request ends only when its reader ends it: a watch, or a log that is followed.
func isStream(r *http.Request) bool { return kindOf(r) == kindStream }

func isTrue(s string) bool { return s == "true" || s == "1" }

func mutates(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}
