// SPDX-License-Identifier: Apache-2.0

package prefetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterfx/clusterfx/internal/requestinfo"
	"github.com/clusterfx/clusterfx/registry/internal/panics"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// maxAge is how long a response waits for the app. A server ends a watch whose reader is behind.
const maxAge = 10 * time.Second

// Pool limits how many Aheads have responses at the same time.
type Pool chan struct{}

// NewPool returns a Pool of n Aheads.
func NewPool(n int) Pool { return make(Pool, n) }

// Ahead are lists that are sent before the app that needs them. A nil Ahead has none.
type Ahead struct {
	pool  Pool
	lists []recorded

	mu        sync.Mutex // protects the fields; held for a few instructions
	responses map[list]*response
	isDropped bool
	end       func() // gives the place in the pool back; nil while the Ahead has none
}

// response is the response to a list, when it is there.
type response struct {
	ctx    context.Context //nolint:containedctx // of the request, whose end also ends the response
	cancel context.CancelFunc
	done   chan struct{}
	found  *http.Response // read it after done; nil if the list was not answered with 200 OK
}

var errDropped = errors.New("the list that was sent ahead is not needed")

// New returns an Ahead that Send completes, or nil if there are no lists for an endpoint.
func (p Pool) New(l *Lists, endpoint string) *Ahead {
	all := l.get(endpoint)
	if len(all) == 0 {
		return nil
	}
	return &Ahead{pool: p, lists: all}
}

// Request describes how the lists are sent.
type Request struct {
	Transport http.RoundTripper
	Server    string // the URL of the API server
	UserAgent string
}

// Send sends the lists, once, if the Pool has a place. It returns when their responses have begun, or when ctx has ended, which
// drops those that have not begun.
func (a *Ahead) Send(ctx context.Context, by Request) {
	if a == nil || ctx.Err() != nil {
		return
	}
	server, err := url.Parse(by.Server)
	if err != nil {
		return // The connection has parsed it, so that this does not happen.
	}
	var sending sync.WaitGroup
	var found atomic.Bool
	for one, waiting := range a.enter(ctx) {
		r := one.request(server).WithContext(waiting.ctx)
		r.Header.Set("User-Agent", by.UserAgent)
		sending.Go(func() {
			if waiting.complete(ctx, func() (*http.Response, error) { return transport.SendLimited(by.Transport, r) }) {
				found.Store(true)
			}
		})
	}
	sending.Wait()
	if !found.Load() {
		a.Drop()
	}
}

// Pending reports whether there are responses, or may soon be.
func (a *Ahead) Pending() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.responses) > 0
}

// enter takes a place in the pool, until all responses are taken or dropped, and returns the places for the responses. There are
// none if the pool is full or the Ahead is dropped.
func (a *Ahead) enter(ctx context.Context) map[recorded]*response {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isDropped {
		return nil
	}
	select {
	case a.pool <- struct{}{}:
	default:
		return nil
	}
	old := time.AfterFunc(maxAge, a.Drop)
	a.end = sync.OnceFunc(func() {
		old.Stop()
		<-a.pool
	})
	a.responses = map[list]*response{}
	all := map[recorded]*response{}
	for _, one := range a.lists {
		waiting := newResponse(ctx)
		a.responses[one.list], all[one] = waiting, waiting
	}
	return all
}

// newResponse returns the place for a response. The context of its request outlasts ctx.
func newResponse(ctx context.Context) *response {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &response{ctx: ctx, cancel: cancel, done: make(chan struct{})}
}

// complete sends the request, and reports whether the app can have the response. ctx cancels the request until the response has
// begun.
func (w *response) complete(ctx context.Context, send func() (*http.Response, error)) (ok bool) {
	defer close(w.done)
	unhook := context.AfterFunc(ctx, w.cancel)
	err := panics.Catch(func() (err error) {
		w.found, err = send() //nolint:bodyclose // The app closes it, or the end of its context does.
		return err
	})
	isCanceled := !unhook()
	if err == nil && (isCanceled || w.found.StatusCode != http.StatusOK) {
		_ = w.found.Body.Close()
		err = errDropped
	}
	if err != nil {
		w.found = nil
		w.cancel()
	}
	return err == nil
}

// DropBefore returns a transport for clients, which drops the responses that were not taken before it sends a request: what the
// caches of the app list after it has to contain what the request has written or read.
func (a *Ahead) DropBefore(next http.RoundTripper) http.RoundTripper {
	if a == nil {
		return next
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		a.Drop()
		return next.RoundTrip(r)
	})
}

// Use returns a transport for the caches of the app, which takes the responses to the lists that were sent ahead. Clients may send by
// way of it, too: it sends their requests as DropBefore does.
func (a *Ahead) Use(next http.RoundTripper) http.RoundTripper {
	if a == nil {
		return next
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		waiting := a.take(r)
		if waiting == nil {
			if !isOfCache(r) {
				a.Drop()
			}
			return next.RoundTrip(r)
		}
		select {
		case <-waiting.done:
		case <-r.Context().Done():
			waiting.cancel()
			return nil, context.Cause(r.Context())
		}
		if waiting.found == nil || waiting.ctx.Err() != nil {
			return next.RoundTrip(r)
		}
		return waiting.hand(r), nil
	})
}

// isOfCache reports whether a request may come from a cache that starts, or from discovery.
func isOfCache(r *http.Request) bool {
	_, isList := listOf(r)
	return isList || r.Method == http.MethodGet && (requestinfo.Of(r.URL.Path).Resource == "" || transport.IsStream(r))
}

// take returns the response to the request, which is there or on its way, once; nil if there is none.
func (a *Ahead) take(r *http.Request) *response {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.responses) == 0 { // As in the rest of the app's life.
		return nil
	}
	one, isList := listOf(r)
	if !isList {
		return nil
	}
	waiting := a.responses[one.list]
	delete(a.responses, one.list)
	if waiting != nil && len(a.responses) == 0 {
		a.end()
	}
	return waiting
}

// hand returns the response to the app's request, whose context ends it.
func (w *response) hand(r *http.Request) *http.Response {
	found := *w.found
	unhook := context.AfterFunc(r.Context(), w.cancel)
	found.Request = r
	found.Body = &body{ReadCloser: w.found.Body, end: func() {
		unhook()
		w.cancel()
	}}
	return &found
}

// body is the body of a response that was sent ahead.
type body struct {
	io.ReadCloser
	end func()
}

// Close ends the request.
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Drop ends the requests whose responses were not taken. It does not block.
func (a *Ahead) Drop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	rest := a.responses
	a.responses, a.isDropped = nil, true
	end := a.end
	a.mu.Unlock()
	for _, one := range rest {
		one.cancel()
	}
	if end != nil {
		end()
	}
}
