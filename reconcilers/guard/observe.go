// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

type lockKey struct {
	uid  types.UID
	kind string
}

// observations are the locks of other processes, and since when, by our clock, each has not changed.
type observations struct {
	mu   sync.Mutex // for map operations
	seen map[lockKey]observation
}

type observation struct {
	holder   string
	revision int64
	since    time.Time // of this revision
	ttl      time.Duration
}

// remaining returns the time until a lock that was just read expires: the whole TTL if it is new or has changed.
func (o *observations) remaining(key lockKey, l lock.State, now time.Time) time.Duration {
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

// sweep drops observations that were not used for long after the lock expired. Dropping too early only prolongs a
// wait.
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

type turns struct {
	mu    sync.Mutex // for map operations
	taken map[lockKey]bool
}

// take reports whether the lock was free, and reserves it until leave.
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
