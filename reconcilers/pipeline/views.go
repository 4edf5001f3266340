// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// oldFor is the time for which a replaced version counts as old. A cache is rarely further behind, and after a restore
// of etcd old versions appear again: then they are the newest.
const oldFor = 10 * time.Second

// views are the versions of objects that a write of conditions has just replaced. A cache that still shows such a
// version is behind, and a pass on it would repeat all work, only to fail with a conflict.
type views struct {
	mu       sync.Mutex // protects replaced, for map operations only
	replaced map[types.NamespacedName]replacement
}

// replacement is the last version that was replaced, and the time of the write.
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

// isOld reports whether a version is the last version that was replaced, within oldFor. Any other version is newer, or
// even older: then the pass fails with a conflict.
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
