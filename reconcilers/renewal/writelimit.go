// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pause is the least time between two writes of a Secret, whatever the response of the remote is.
const pause = 5 * time.Minute

// floor keeps the pause between two writes of a Secret. The record in the Secret contains the time of the hub's last
// write and survives a restart. The times that the process keeps in memory count as well, because the record may be
// removed and the clock may be set.
type floor struct {
	mu   sync.Mutex
	last map[client.ObjectKey]time.Time // time of the last known write
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

// forget drops the time of a Secret that has been deleted.
func (f *floor) forget(key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.last, key)
}
