// SPDX-License-Identifier: Apache-2.0

package transport

import "context"

// WatchObserver is called with the progress of a watch. An informer implements it, because it cannot see from its own side
// whether the API server is silent or nothing has happened. The methods must return at once.
type WatchObserver interface {
	// Received is called when bytes have arrived.
	Received()
	// AwaitsBookmarks reports whether the observer wants calls of SendsBookmarks. It is called once for each watch.
	AwaitsBookmarks() bool
	// SendsBookmarks is called when it is known that the API server sends bookmarks of the kind, so that silence means
	// that something is wrong.
	SendsBookmarks()
	// Silent is called when nothing has arrived for MaxSilence, before the watch ends.
	Silent()
}

type observerKey struct{}

// WithObserver returns the context of the lists and watches of an informer.
func WithObserver(ctx context.Context, o WatchObserver) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

// ObserverOf returns the observer that the context of a request carries; never nil.
func ObserverOf(ctx context.Context) WatchObserver {
	if o, ok := ctx.Value(observerKey{}).(WatchObserver); ok {
		return o
	}
	return noObserver{}
}

type noObserver struct{}

func (noObserver) Received()             {}
func (noObserver) AwaitsBookmarks() bool { return false }
func (noObserver) SendsBookmarks()       {}
func (noObserver) Silent()               {}
