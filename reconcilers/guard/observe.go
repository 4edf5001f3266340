// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

// lockKey identifies the lock of a condition of an object.
type lockKey struct {
	uid  types.UID
	kind string
}

// observations are the locks of other processes, and the time since which each has not changed, by our own clock.
type observations struct {
	mu   sync.Mutex // protects seen, for map operations only
	seen map[lockKey]observation
}

type observation struct {
	holder   string
	revision int64
	since    time.Time // when this revision was first seen
	ttl      time.Duration
}

// remaining returns the time until the lock, which has just been read, expires. A lock that is seen for the first time,
// or has changed, expires after its whole TTL.
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

// sweep drops observations that were not used for long after the lock expired: the object has been deleted, or the lock
// was released. If sweep drops an observation too early, a process waits for the TTL again.
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

// turns are the locks for which this process has a task.
type turns struct {
	mu    sync.Mutex // protects taken, for map operations only
	taken map[lockKey]bool
}

// take reserves the lock for one caller in this process, and reports whether it was free. leave releases it.
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
