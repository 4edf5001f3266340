// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pause is the shortest time between two writes of a Secret, whatever the response of the remote is.
const pause = 5 * time.Minute

// writeLimit keeps the pause between two writes of a Secret. The record in the Secret contains the time of the hub's last
// write and survives a restart. The times that the process keeps in memory count as well, because the record may be
// removed and the clock may be set.
type writeLimit struct {
	mu   sync.Mutex
	last map[client.ObjectKey]time.Time // time of the last known write
}

func newWriteLimit() *writeLimit { return &writeLimit{last: map[client.ObjectKey]time.Time{}} }

// wait returns how long the Secret must not be written. A bad record counts as a write at the time when it was first
// seen: it delays the next write by one pause, and only once.
func (w *writeLimit) wait(key client.ObjectKey, recorded record, isBad bool, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.last[key]
	if isBad && !known {
		last, known = now, true
		w.last[key] = now
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
func (w *writeLimit) wrote(key client.ObjectKey, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[key] = now
}

// forget drops the time of a Secret that has been deleted.
func (w *writeLimit) forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, key)
}
