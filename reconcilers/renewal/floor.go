// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pause is the least time between two writes of a Secret, whatever a remote responds.
const pause = 5 * time.Minute

// floor keeps the pause between two writes of a Secret. The record in the Secret says when the hub last wrote it, and
// outlives the process. What the process itself has seen counts besides: the record may be removed, and the clock set.
type floor struct {
	mu   sync.Mutex
	last map[client.ObjectKey]time.Time // of the last write that is known of
}

func newFloor() *floor { return &floor{last: map[client.ObjectKey]time.Time{}} }

// wait returns how long the Secret must not be written. A bad record counts as a write at the time when it was first
// seen: it delays the next write by one pause, and only once.
func (f *floor) wait(key client.ObjectKey, recorded record, isBad bool, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.last[key]
	if isBad && !known {
		last, known = now, true
		f.last[key] = now
	}
	var wait time.Duration
	if known {
		wait = pause - now.Sub(last)
	}
	if !recorded.Time.IsZero() {
		wait = max(wait, pause-now.Sub(recorded.Time.Time))
	}
	return max(wait, 0)
}

// wrote notes a write.
func (f *floor) wrote(key client.ObjectKey, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last[key] = now
}

// forget drops what is known of a Secret that has gone.
func (f *floor) forget(key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.last, key)
}
