// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
)

type lockKey struct {
	uid  types.UID
	kind string
}

// observation is what this process has seen of another one's lock.
type observation struct {
	holder   string
	revision int64
	since    time.Time // of this revision, by our clock
}

// maxObservations bounds memory. Dropping one too early only prolongs a wait.
const maxObservations = 10_000

// remaining returns the time until a lock that was just read expires: the whole TTL if it is new or has changed.
func (h *Host[O]) remaining(key lockKey, l lock.State) time.Duration {
	now, ttl := h.clock.now(), time.Duration(l.TTLSeconds)*time.Second
	found, _ := h.others.Get(key)
	if last, ok := found.(observation); ok && last.holder == l.Holder && last.revision == l.Revision {
		return max(0, ttl-now.Sub(last.since))
	}
	h.others.Add(key, observation{holder: l.Holder, revision: l.Revision, since: now}, 10*ttl+time.Hour)
	return ttl
}
