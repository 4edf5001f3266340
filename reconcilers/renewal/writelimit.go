// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pause is the shortest time between two writes of a Secret.
const pause = 5 * time.Minute

// writeLimit keeps the pause. The record in the Secret survives a restart; times in memory count too, because a
// record may be removed and the clock be set.
type writeLimit struct {
	mu   sync.Mutex
	last map[client.ObjectKey]time.Time // last known write
}

func newWriteLimit() *writeLimit { return &writeLimit{last: map[client.ObjectKey]time.Time{}} }

// wait: a bad record counts as a write when it was first seen, so it delays by one pause, once.
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

func (w *writeLimit) wrote(key client.ObjectKey, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[key] = now
}

func (w *writeLimit) forget(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, key)
}
