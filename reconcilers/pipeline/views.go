// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// views are the versions of objects that a write of conditions has replaced. A cache that still shows one is late, and a
// pass on it would do all again, only to fail with a conflict.
type views struct {
	mu       sync.Mutex // protects replaced, for map operations only
	replaced map[types.NamespacedName]string
}

func (v *views) replace(key types.NamespacedName, resourceVersion string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.replaced == nil {
		v.replaced = map[types.NamespacedName]string{}
	}
	v.replaced[key] = resourceVersion
}

// isOld reports whether a version is known to be replaced. Any other one is newer, so nothing need be known any more.
func (v *views) isOld(key types.NamespacedName, resourceVersion string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version, ok := v.replaced[key]; ok && version == resourceVersion {
		return true
	}
	delete(v.replaced, key)
	return false
}

func (v *views) forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.replaced, key)
}
