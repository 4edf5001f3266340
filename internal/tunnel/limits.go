// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"golang.org/x/time/rate"
)

// A request that names no accepted key ends before TLS, and costs nothing that is worth a limit. One that names such a key costs a
// handshake, whoever sends it, since only the handshake shows whether it is the agent. So attempts are limited for each key and
// address: who knows the fingerprint of a key can use up what its agent has at the same address, with more than attemptsPerSecond,
// and nothing of another agent or address. What is in progress is limited for all by ending the oldest, since an agent is quick.
const (
	attemptsPerSecond = 20
	maxSources        = 10_000
	maxHandshakes     = 1024 // in progress
)

type source struct{ address, key string }

type limits struct {
	mu         sync.Mutex // for operations on the fields below
	sources    map[source]*rate.Limiter
	handshakes list.List // of func(), which ends a handshake; the oldest first
}

// allow reports whether a source may try.
func (l *limits) allow(from source) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.sources[from]
	if one == nil {
		if l.sources == nil || len(l.sources) >= maxSources {
			l.sources = map[source]*rate.Limiter{} // A second would fill them again.
		}
		one = rate.NewLimiter(attemptsPerSecond, attemptsPerSecond)
		l.sources[from] = one
	}
	return one.Allow()
}

var errCrowded = errors.New("too many newer handshakes are in progress")

// begin returns the context of a handshake. The caller must call end.
func (l *limits) begin(ctx context.Context) (_ context.Context, end func()) {
	ctx, stop := context.WithTimeout(ctx, handshakeTimeout)
	ctx, crowd := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handshakes.Len() >= maxHandshakes {
		oldest, _ := l.handshakes.Remove(l.handshakes.Front()).(func())
		oldest()
	}
	one := l.handshakes.PushBack(func() { crowd(errCrowded) })
	return ctx, func() {
		stop()
		crowd(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.handshakes.Remove(one) // It does nothing if it was the oldest.
	}
}
