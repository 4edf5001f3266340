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
type writeLimit struct{ last sync.Map } // last known writes by client.ObjectKey

// wait: a bad record counts as a write when it was first seen, so it delays by one pause, once.
func (w *writeLimit) wait(key client.ObjectKey, recorded record, isBad bool, now time.Time) (wait time.Duration) {
	last, _ := w.last.Load(key)
	if isBad {
		last, _ = w.last.LoadOrStore(key, now)
	}
	if last, known := last.(time.Time); known {
		wait = pause - now.Sub(last)
	}
	if !recorded.Time.IsZero() {
		wait = max(wait, pause-now.Sub(recorded.Time.Time))
	}
	return max(wait, 0)
}

func (w *writeLimit) wrote(key client.ObjectKey, now time.Time) { w.last.Store(key, now) }

func (w *writeLimit) forget(key client.ObjectKey) { w.last.Delete(key) }
