// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// oldFor is how long a replaced version counts as old. A cache is rarely further behind; after a restore of etcd old
// versions are the newest.
const oldFor = 10 * time.Second

// views are versions that a write of conditions has just replaced. A pass on one would repeat all work and end with a
// conflict.
type views struct {
	mu       sync.Mutex // for map operations
	replaced map[types.NamespacedName]replacement
}

type replacement struct {
	version string
	at      time.Time
}

func (v *views) replace(key types.NamespacedName, resourceVersion string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.replaced == nil {
		v.replaced = map[types.NamespacedName]replacement{}
	}
	v.replaced[key] = replacement{resourceVersion, now}
}

// isOld is false for an even older version: that pass ends with a conflict.
func (v *views) isOld(key types.NamespacedName, resourceVersion string, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, known := v.replaced[key]
	if known && now.Sub(last.at) >= oldFor {
		delete(v.replaced, key)
		return false
	}
	return known && last.version == resourceVersion
}

func (v *views) forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.replaced, key)
}
