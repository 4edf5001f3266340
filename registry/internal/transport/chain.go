// SPDX-License-Identifier: Apache-2.0

package transport

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

// Chain describes the transport that every client of one epoch shares, for one side of it: the
// remote, or the hub. Whatever an app sends passes these layers, outermost first:
//
//	deadline -> decorations -> connections -> rate limit -> user agent -> answers judged, amended and bounded
//	-> fence -> gate -> base (which authenticates, and guards the dial)
//
// Nothing can wait between the fence and the wire, so that a request is either refused or sent.
type Chain struct {
	Base        http.RoundTripper
	Fence       context.Context //nolint:containedctx // The fence is a context: the end of an epoch, seen by every request.
	Gate        func() error    // refuses mutating requests while it returns an error; nil is open
	RateLimiter *rate.Limiter
	UserAgent   string
	Timeout     time.Duration  // of one request that is neither a list nor a stream
	Meter       *meter.Limiter // bounds what answers may turn into
	Heard       *atomic.Int64  // when a list last brought something, in nanoseconds; may be nil
	// Decorated is send with the operator's decorations around it; nil without any.
	Decorated http.RoundTripper
	Traffic   *Traffic    // counts requests; nil counts nothing
	Intercept Interceptor // nil for none
	// Judge is called with the status of each response; nil for none.
	Judge func(r *http.Request, status int)
}

// Interceptor is called with each request before anything else, and sends it, such as within a span.
type Interceptor func(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error)

// RoundTrip sends the request through the layers.
func (c *Chain) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.Intercept == nil {
		return c.roundTrip(r)
	}
	return c.Intercept(r, c.roundTrip)
}

func (c *Chain) roundTrip(r *http.Request) (*http.Response, error) {
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
	ExchangeOf(own).Answered(response)
	if c.Judge != nil {
		c.Judge(r, response.StatusCode)
	}
	if kind == kindStream && response.StatusCode != http.StatusOK {
		// It is no stream: client-go reads it to its end before it says so.
		kind = kindUnary
		timer := time.AfterFunc(c.Timeout, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	response.Body = c.boundBody(r, response, kind, cancel)
	return response, nil
}

// bound returns a context that ends with the request's own, at the deadline of its kind, and
// when the fence closes, with ErrStopped as its cause then.
func (c *Chain) bound(ctx context.Context, kind requestKind) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(c.Fence, func() { cancel(context.Cause(c.Fence)) })
	done := func() {
		unhook()
		cancel(nil)
	}
	timeout := c.Timeout
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
func (c *Chain) pass(r *http.Request, kind requestKind) (*http.Response, error) {
	if c.Decorated != nil {
		return c.Decorated.RoundTrip(r)
	}
	return c.send(r, kind)
}

// Undecorated returns the part of the chain that comes after the decorations.
func (c *Chain) Undecorated() http.RoundTripper { return sender{c} }

// sender is the part of a chain that comes after the decorations.
type sender struct{ *Chain }

// RoundTrip sends the request.
func (s sender) RoundTrip(r *http.Request) (*http.Response, error) { return s.send(r, kindOf(r)) }

func (c *Chain) send(r *http.Request, kind requestKind) (*http.Response, error) {
	if c.RateLimiter != nil {
		began := time.Now()
		err := c.RateLimiter.Wait(r.Context())
		c.Traffic.waited(time.Since(began))
		if err != nil {
			return Refuse(r, fmt.Errorf("wait for the rate limit of this app: %w", err))
		}
	}
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", c.UserAgent)
	if c.Fence.Err() != nil {
		return Refuse(r, context.Cause(c.Fence))
	}
	if c.Gate != nil && mutates(r) {
		if err := c.Gate(); err != nil {
			return Refuse(r, err)
		}
	}
	response, err := SendLimited(c.Base, r)
	if err != nil {
		c.Traffic.answered(0)
		return nil, err
	}
	c.Traffic.answered(response.StatusCode)
	if err := c.check(r, response, kind); err != nil {
		response.Body.Close()
		return nil, err
	}
	return response, nil
}

// Refuse ends a request that is not sent; a RoundTripper closes its body all the same.
func Refuse(r *http.Request, err error) (*http.Response, error) {
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

// IsStream reports whether the response to a request ends only when its reader ends it: a watch, or a log that is followed.
func IsStream(r *http.Request) bool { return kindOf(r) == kindStream }

func isTrue(s string) bool { return s == "true" || s == "1" }

func mutates(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}
