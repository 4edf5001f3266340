// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of the transport chain that no configuration widens.
const (
	// maxRetryAfter is how long a remote may make client-go wait before a retry. client-go
	// honours any number of seconds, ten times in a row.
	maxRetryAfter = 10 * time.Second
	// listTimeout bounds a whole list, which of a large cluster takes longer than other requests.
	listTimeout = 10 * time.Minute
	// maxBody and maxListBody bound an answer in bytes; client-go reads it into memory whole.
	maxBody     = 64 << 20
	maxListBody = 256 << 20
)

var (
	errRedirect = errors.New("the API server answered with a redirect, which is refused: " +
		"it would send the credentials elsewhere; put the final address into the kubeconfig")
	errBodyTooLarge = errors.New("the answer of the API server is larger than the hub accepts")
)

// chain describes the transport that every client of one epoch shares, for one side of it: the
// remote, or the hub. Whatever an app sends passes these layers, outermost first:
//
//	deadline -> rate limit -> user agent -> Retry-After clamp -> redirects refused -> body cap
//	-> fence -> gate -> base (which authenticates, and guards the dial)
//
// Nothing can wait between the fence and the wire, so that a request is either refused or sent.
type chain struct {
	base      http.RoundTripper
	fence     context.Context //nolint:containedctx // The fence is a context: the end of an epoch, seen by every request.
	gate      func() error    // refuses mutating requests while it returns an error; nil is open
	limiter   *rate.Limiter
	userAgent string
	timeout   time.Duration // of one request that is neither a list nor a stream
}

// RoundTrip sends the request through the layers.
func (c *chain) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := kindOf(r)
	ctx, cancel := c.bound(r.Context(), kind)
	response, err := c.send(r.WithContext(ctx), kind)
	if err != nil {
		cause := context.Cause(ctx)
		cancel()
		if cause != nil && r.Context().Err() == nil {
			return nil, fmt.Errorf("%w (%w)", cause, err)
		}
		return nil, err
	}
	response.Body = &boundBody{ReadCloser: response.Body, left: kind.maxBody(), cancel: cancel}
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

func (c *chain) send(r *http.Request, kind requestKind) (*http.Response, error) {
	if c.limiter != nil {
		if err := c.limiter.Wait(r.Context()); err != nil {
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
	response, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	return response, check(response, kind)
}

// refuse ends a request that is not sent; a RoundTripper closes its body all the same.
func refuse(r *http.Request, err error) (*http.Response, error) {
	if r.Body != nil {
		r.Body.Close()
	}
	return nil, err
}

// check refuses and amends what a remote may not ask of the hub.
func check(response *http.Response, kind requestKind) error {
	if code := response.StatusCode; code >= 300 && code < 400 && code != http.StatusNotModified {
		response.Body.Close()
		return errRedirect
	}
	if response.ContentLength > kind.maxBody() {
		response.Body.Close()
		return errBodyTooLarge
	}
	if after, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		after = max(0, min(after, int(maxRetryAfter/time.Second)))
		response.Header.Set("Retry-After", strconv.Itoa(after))
	}
	return nil
}

// boundBody ends an answer that is too long, and releases the request's context at its end.
type boundBody struct {
	io.ReadCloser
	left   int64
	cancel context.CancelFunc
}

func (b *boundBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errBodyTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

func (b *boundBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// requestKind says how long a request may take and how much it may bring.
type requestKind int

const (
	kindUnary  requestKind = iota
	kindList               // of a whole collection
	kindStream             // a watch, or a log that is followed: ends when its reader ends it
)

func (k requestKind) maxBody() int64 {
	switch k {
	case kindList:
		return maxListBody
	case kindStream:
		return 1 << 62
	}
	return maxBody
}

func kindOf(r *http.Request) requestKind {
	query := r.URL.Query()
	switch {
	case isTrue(query.Get("watch")), isTrue(query.Get("follow")):
		return kindStream
	case r.Method == http.MethodGet && isCollection(r.URL.Path):
		return kindList
	}
	return kindUnary
}

func isTrue(s string) bool { return s == "true" || s == "1" }

func mutates(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// isCollection reports whether an API path names all objects of a resource rather than one of
// them: /api/v1/pods, /apis/apps/v1/namespaces/x/deployments, but not /apis/apps/v1.
func isCollection(path string) bool {
	_, rest, found := strings.Cut(path, "/apis/")
	version := 2 // group and version
	if !found {
		if _, rest, found = strings.Cut(path, "/api/"); !found {
			return false
		}
		version = 1
	}
	parts := strings.Split(strings.Trim(rest, "/"), "/")
	if len(parts) <= version {
		return false // discovery
	}
	parts = parts[version:]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) == 1
}
