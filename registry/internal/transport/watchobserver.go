// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"net/http"
)

// WatchObserver follows a watch for an informer, which cannot see whether the API server is silent or nothing has
// happened. The methods must return at once.
type WatchObserver interface {
	// Received is called when bytes have arrived.
	Received()
	// Added is called when an object may have arrived of the list at the beginning of a watch, until it returns false.
	Added() (more bool)
	// SendsBookmarks: the API server sends bookmarks of the kind, so that silence means that something is wrong.
	SendsBookmarks()
	// Silent: nothing has arrived for MaxSilence. The watch ends then.
	Silent()
	// Forbidden is called with a list or watch that got a 403.
	Forbidden(r *http.Request)
}

type observerKey struct{}

// WithObserver returns the context of the lists and watches of an informer.
func WithObserver(ctx context.Context, o WatchObserver) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// ObserverOf returns the observer of a context; never nil.
func ObserverOf(ctx context.Context) WatchObserver {
	if o, ok := ctx.Value(observerKey{}).(WatchObserver); ok {
		return o
	}
	return noObserver{}
}

type noObserver struct{}

func (noObserver) Received()               {}
func (noObserver) Added() bool             { return false }
func (noObserver) SendsBookmarks()         {}
func (noObserver) Silent()                 {}
func (noObserver) Forbidden(*http.Request) {}

// Observe shows a refusal to the observer of its request.
func Observe(r *http.Request, response *http.Response) {
	if response.StatusCode == http.StatusForbidden {
		ObserverOf(r.Context()).Forbidden(r)
	}
}
