// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of handshakes, each of a source: an address, and a key that the hub knows. The key is what the request says before TLS, so
// whoever names no known key shares the budget of the address, and cannot use up that of a known key.
const (
	maxHandshakes  = 256 // in progress, of all sources
	maxFromAddress = 16  // in progress, from an address without a known key
	maxOfKey       = 4   // in progress, with a known key from an address
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
	mu         sync.Mutex // for operations on the fields below
	sources    map[source]*attempts
	inProgress int
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
	if a == nil || l.inProgress >= maxHandshakes || a.inProgress >= most || a.failures.Tokens() < 1 {
		return nil, false
	}
	a.inProgress++
	l.inProgress++
	return func(succeeded bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.inProgress--
		l.inProgress--
		if !succeeded {
			a.failures.Allow()
		}
	}, true
}

// fail counts a failure before the handshake.
func (l *limits) fail(from source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.of(from); a != nil {
		a.failures.Allow()
	}
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
	if l.sources == nil {
		l.sources = make(map[source]*attempts)
	}
	l.sources[from] = a
	return a
}
