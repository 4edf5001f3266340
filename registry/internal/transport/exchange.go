// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
	"sync/atomic"
)

// Exchange records whether the response to a call has arrived in full, which tells errors of a decoder, which quote it,
// from others.
type Exchange struct {
	accepted atomic.Bool // the last response has a code of 200 to 206
	broken   atomic.Bool // its body could not be read to the end; the error has a fixed text
}

type exchangeKey struct{}

// WithExchange returns the context for one call, with the exchange that it fills in.
func WithExchange(ctx context.Context) (context.Context, *Exchange) {
	x := &Exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// Arrived reports whether the last response accepts the request and was read to its end, so that an error is the
// decoder's.
func (x *Exchange) Arrived() bool { return x.accepted.Load() && !x.broken.Load() }

// ExchangeOf returns the exchange of a context, or nil, whose methods do nothing.
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

func (x *Exchange) broke() {
	if x != nil {
		x.broken.Store(true)
	}
}
