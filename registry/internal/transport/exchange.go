// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
	"sync/atomic"
)

// Exchange records whether the response to a call of a client has arrived in full. It tells errors of a decoder, which quote
// the response, from errors of a request.
type Exchange struct {
	accepted atomic.Bool // the last response has a code of 200 to 206
	broken   atomic.Bool // its body could not be read to the end; the error has a fixed text
}

// exchangeKey is the key under which the context of a request carries its exchange.
type exchangeKey struct{}

// WithExchange returns the context for one call of a client, with the exchange that its requests will fill in.
func WithExchange(ctx context.Context) (context.Context, *Exchange) {
	x := &Exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// Arrived reports whether the last response accepts the request and was read to its end. An error of the call is the
// decoder's then.
func (x *Exchange) Arrived() bool { return x.accepted.Load() && !x.broken.Load() }

// ExchangeOf returns the exchange that the context of a request carries, or nil. The methods of a nil Exchange do nothing.
func ExchangeOf(ctx context.Context) *Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return x
}

// Answered records a response.
func (x *Exchange) Answered(response *http.Response) {
	if x != nil {
		x.accepted.Store(response.StatusCode >= http.StatusOK && response.StatusCode <= http.StatusPartialContent)
	}
}

// broke records that reading a body has failed.
func (x *Exchange) broke() {
	if x != nil {
		x.broken.Store(true)
	}
}
