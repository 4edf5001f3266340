// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// lockKey names a lock: that of a condition of an object.
type lockKey struct {
	uid  types.UID
	kind string
}

// observations are the locks of others, and since when each has not changed, by our own clock.
type observations struct {
	mu   sync.Mutex // protects seen, for map operations only
	seen map[lockKey]observation
}

type observation struct {
	holder   string
	revision int64
	since    time.Time // when it was first seen like this
	ttl      time.Duration
}

// remaining returns how long the lock, as it was read just now, is its holder's. A lock that is seen for the
// first time, or has changed, is for its whole TTL from now on.
func (o *observations) remaining(key lockKey, l lock.Record, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	ttl := time.Duration(l.TTLSeconds) * time.Second
	last, ok := o.seen[key]
	if !ok || last.holder != l.Holder || last.revision != l.Revision {
		o.sweep(now)
		o.seen[key] = observation{holder: l.Holder, revision: l.Revision, since: now, ttl: ttl}
		return ttl
	}
	return max(0, ttl-now.Sub(last.since))
}

func (o *observations) forget(key lockKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.seen, key)
}

// sweep drops what nobody has asked for long after it expired: the object has gone, or the lock was released.
// Dropping one too early only makes somebody wait once more.
func (o *observations) sweep(now time.Time) {
	if o.seen == nil {
		o.seen = map[lockKey]observation{}
	}
	for key, s := range o.seen {
		if now.Sub(s.since) > 10*s.ttl+time.Hour {
			delete(o.seen, key)
		}
	}
}

// turns are the locks that this process has a task for.
type turns struct {
	mu    sync.Mutex // protects taken, for map operations only
	taken map[lockKey]bool
}

// take reports whether nobody else in this process has the turn. leave gives it back.
func (t *turns) take(key lockKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[key] {
		return false
	}
	if t.taken == nil {
		t.taken = map[lockKey]bool{}
	}
	t.taken[key] = true
	return true
}

func (t *turns) leave(key lockKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.taken, key)
}
