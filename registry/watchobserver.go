// SPDX-License-Identifier: Apache-2.0

package registry

import "context"

// watchObserver learns what a watch brings: an informer, which cannot see from its own side whether the API server is
// silent or nothing happens. The methods must return at once.
type watchObserver interface {
	// Received is called when bytes have arrived.
	Received()
	// SendsBookmarks is called when it is known that the API server sends bookmarks of the kind, so that silence means
	// that something is wrong.
	SendsBookmarks()
	// Silent is called when nothing has arrived for maxSilence, before the watch ends.
	Silent()
}

type observerKey struct{}

// withObserver returns the context of the lists and watches of an informer.
func withObserver(ctx context.Context, o watchObserver) context.Context {
	return context.WithValue(ctx, observerKey{}, o)
}

func observerOf(ctx context.Context) watchObserver {
	if o, ok := ctx.Value(observerKey{}).(watchObserver); ok {
		return o
	}
	return noObserver{}
}

type noObserver struct{}

func (noObserver) Received()       {}
func (noObserver) SendsBookmarks() {}
func (noObserver) Silent()         {}
