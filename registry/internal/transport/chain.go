// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// No configuration raises these. For responses see response.go.
const (
	// maxRetryAfter is how long a remote may delay a retry. client-go honours any number of seconds, ten times in a
	// row.
	maxRetryAfter = 10 * time.Second
	// listTimeout: a list of a large cluster takes longer than other requests.
	listTimeout = 10 * time.Minute
)

// Chain is the transport of all clients of one epoch to one side, the remote or the hub. The layers, outermost first:
//
//	deadline -> middleware -> connections -> rate limit -> user agent -> deletes -> limits of the response
//	-> fence -> count of writes -> gate -> base (which authenticates, and guards the dial)
//
// No layer waits between the fence and the connection, so a request is either refused or sent. Base, Fence, Timeout and
// Meter are required.
type Chain struct {
	Base  http.RoundTripper
	Fence context.Context //nolint:containedctx // The fence is a context: the end of an epoch, seen by every request.
	// Gate refuses mutating requests while it returns an error. A term other than zero goes into the user agent. Nil is
	// open.
	Gate func() (term int64, err error)
	// Writes counts mutating requests in flight, with a Gate; may be nil.
	Writes      WriteCounter
	RateLimiter *rate.Limiter
	UserAgent   string
	Timeout     time.Duration  // of a request that is neither a list nor a stream
	Meter       *meter.Limiter // limits the memory that responses take
	Heard       *atomic.Int64  // when bytes of a list last arrived, in nanoseconds since 1970; may be nil
	// Doubt is called when a request suggests that the remote cannot be reached or refuses the credential. It may be
	// nil, and must return at once.
	Doubt func()
	// Deletes decides about deletes; may be nil.
	Deletes Interceptor
	// Middleware leads to BelowMiddleware; nil for none.
	Middleware http.RoundTripper
	Traffic    *Traffic    // counts requests; nil counts nothing
	Intercept  Interceptor // is called before all other layers; nil for none
}

// Interceptor sends a request, such as within a span.
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
	Observe(r, response)
	if kind == kindStream && response.StatusCode != http.StatusOK {
		// A refusal is no stream: client-go reads it to its end before it returns an error.
		kind = kindUnary
		timer := time.AfterFunc(c.Timeout, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	response.Body = c.boundBody(r, response, kind, cancel)
	return response, nil
}

// bound returns a context that ends with the request's, at the deadline of its kind, and with the fence, with its
// cause.
func (c *Chain) bound(ctx context.Context, kind requestKind) (context.Context, context.CancelFunc) {
	ctx, done := Within(ctx, c.Fence)
	timeout := c.Timeout
	switch kind {
	case kindStream:
		return ctx, done
	case kindList:
		timeout = listTimeout
	}
	ctx, stop := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no response within %s: %w", timeout, context.DeadlineExceeded))
	return ctx, func() {
		stop()
		done()
	}
}

// Within returns a context that ends with ctx, and with the fence and its cause. The caller must call end.
func Within(ctx, fence context.Context) (_ context.Context, end context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(fence, func() { cancel(context.Cause(fence)) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

func (c *Chain) pass(r *http.Request, kind requestKind) (*http.Response, error) {
	if c.Middleware != nil {
		return c.Middleware.RoundTrip(r)
	}
	return c.send(r, kind)
}

// BelowMiddleware returns the part of the chain after the middleware.
func (c *Chain) BelowMiddleware() http.RoundTripper { return sender{c} }

type sender struct{ *Chain }

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
	if c.Deletes == nil {
		return c.sendAllowed(r, kind)
	}
	return c.Deletes(r, func(r *http.Request) (*http.Response, error) { return c.sendAllowed(r, kind) })
}

func (c *Chain) sendAllowed(r *http.Request, kind requestKind) (*http.Response, error) {
	if c.Fence.Err() != nil {
		return Refuse(r, context.Cause(c.Fence))
	}
	if c.Gate != nil && mutates(r) {
		return c.write(r, kind)
	}
	response, err := SendLimited(c.Base, r)
	return c.accept(r, kind, response, err)
}

func (c *Chain) accept(r *http.Request, kind requestKind, response *http.Response, err error) (*http.Response, error) {
	if c.Doubt != nil && isDoubtful(r.Context(), response, err) {
		c.Doubt()
	}
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

// isDoubtful: no request to the remote would succeed.
func isDoubtful(ctx context.Context, response *http.Response, err error) bool {
	if err != nil {
		return !errors.Is(ctx.Err(), context.Canceled)
	}
	return response.StatusCode == http.StatusUnauthorized || !isConclusive(response)
}

// Refuse returns err for a request that is not sent (see IsUnsent), and closes its body, as every RoundTripper must.
func Refuse(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, unsentError{err}
}

type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// IsUnsent reports whether a request was not sent: Refuse was called, or there was no connection.
func IsUnsent(err error) bool {
	var unsent unsentError
	var broken *net.OpError
	return errors.As(err, &unsent) || errors.As(err, &broken) && broken.Op == "dial"
}

// requestKind decides the deadline and the limit of the response.
type requestKind int

const (
	kindUnary  requestKind = iota
	kindList               // of a whole collection
	kindStream             // a watch, or a log that is followed: ends when the reader closes it
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

// IsStream reports whether the response ends only when it is closed: a watch, or a followed log.
func IsStream(r *http.Request) bool { return kindOf(r) == kindStream }

func isTrue(s string) bool { return s == "true" || s == "1" }

// Traffic counts the requests of one app. Its counters are looked up once; those of a removed remote are no longer
// exported.
type Traffic struct {
	ByClass   [6]prometheus.Counter // by the first digit of the status; 0 for no response
	Throttled prometheus.Counter    // seconds of waiting for the rate limit
}

// answered takes 0 for no response. A nil traffic counts nothing.
func (t *Traffic) answered(status int) {
	if t == nil {
		return
	}
	class := status / 100
	if class < 0 || class >= len(t.ByClass) {
		class = 0
	}
	t.ByClass[class].Inc()
}

func (t *Traffic) waited(d time.Duration) {
	if t != nil {
		t.Throttled.Add(d.Seconds())
	}
}
