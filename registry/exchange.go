// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"net/http"
	"sync/atomic"
)

// exchange is what becomes of the requests of one call.
type exchange struct {
	accepted atomic.Bool // the last response accepts a request
	broken   atomic.Bool // its body could not be read to the end; the error has a fixed text
}

// exchangeKey is the key under which the context of a request carries its exchange.
type exchangeKey struct{}

// withExchange returns the context of a call, and what becomes of its requests.
func withExchange(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// arrived reports whether a response that accepts the request has arrived in full, so that an error of the call is the
// decoder's.
func (x *exchange) arrived() bool { return x.accepted.Load() && !x.broken.Load() }

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// answered takes note of a response.
func (x *exchange) answered(response *http.Response) {
	if x != nil {
		x.accepted.Store(response.StatusCode >= http.StatusOK && response.StatusCode <= http.StatusPartialContent)
	}
}

// broke takes note of the error with which a body ends.
func (x *exchange) broke() {
	if x != nil {
		x.broken.Store(true)
	}
}
