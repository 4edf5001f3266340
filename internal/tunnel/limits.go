// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of handshakes, each of a source: an address, and a key that the hub knows. The key is what the request says before TLS, so
// whoever names no known key shares the budget of the address, and cannot use up that of a known key.
const (
	maxHandshakes  = 64 // in progress, of all sources; those with known keys wait for their turn
	maxFromAddress = 16 // in progress, from an address without a known key
	maxOfKey       = 4  // in progress, with a known key from an address
	failuresAtOnce = 10
	failureEach    = 6 * time.Second // one more failure after that
	maxSources     = 10_000
)

type source struct{ address, key string }

type attempts struct {
	inProgress int
	failures   *rate.Limiter
}

type limits struct {
	turns chan struct{} // maxHandshakes

	mu      sync.Mutex // for operations on the map
	sources map[source]*attempts
}

func newLimits() *limits {
	return &limits{turns: make(chan struct{}, maxHandshakes), sources: map[source]*attempts{}}
}

// turn waits for the turn of a handshake until ctx ends. Then the caller must call done.
func (l *limits) turn(ctx context.Context) (done func(), err error) {
	select {
	case l.turns <- struct{}{}:
		return func() { <-l.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin is not ok if there are too many handshakes, or were too many failures. Otherwise the caller must call end once.
func (l *limits) begin(from source) (end func(succeeded bool), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := maxFromAddress
	if from.key != "" {
		most = maxOfKey
	}
	a := l.of(from)
	if a == nil || a.inProgress >= most || a.failures.Tokens() < 1 {
		return nil, false
	}
	a.inProgress++
	return func(succeeded bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.inProgress--
		if !succeeded {
			a.failures.Allow()
		}
	}, true
}

// of forgets sources without a recent failure when there are many. It returns nil if all have one. It needs mu.
func (l *limits) of(from source) *attempts {
	if a := l.sources[from]; a != nil {
		return a
	}
	if len(l.sources) >= maxSources {
		maps.DeleteFunc(l.sources, func(_ source, a *attempts) bool {
			return a.inProgress == 0 && a.failures.Tokens() >= failuresAtOnce
		})
	}
	if len(l.sources) >= maxSources {
		return nil
	}
	a := &attempts{failures: rate.NewLimiter(rate.Every(failureEach), failuresAtOnce)}
	l.sources[from] = a
	return a
}
