// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
	"sync/atomic"
)

// Exchange is what becomes of the requests of one call.
type Exchange struct {
	accepted atomic.Bool // the last response accepts a request
	broken   atomic.Bool // its body could not be read to the end; the error has a fixed text
}

// exchangeKey is the key under which the context of a request carries its exchange.
type exchangeKey struct{}

// WithExchange returns the context of a call, and what becomes of its requests.
func WithExchange(ctx context.Context) (context.Context, *Exchange) {
	x := &Exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// Arrived reports whether a response that accepts the request has arrived in full, so that an error of the call is the
// decoder's.
func (x *Exchange) Arrived() bool { return x.accepted.Load() && !x.broken.Load() }

// ExchangeOf returns the exchange that the context of a request carries, or nil. The methods of a nil Exchange do nothing.
func ExchangeOf(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// Answered takes note of a response.
func (x *Exchange) Answered(response *http.Response) {
	if x != nil {
		x.accepted.Store(response.StatusCode >= http.StatusOK && response.StatusCode <= http.StatusPartialContent)
	}
}

// broke takes note of the error with which a body ends.
func (x *Exchange) broke() {
	if x != nil {
		x.broken.Store(true)
	}
}
