// SPDX-License-Identifier: Apache-2.0

package object

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Deletions are objects whose deletion has succeeded, and only the removal of the finalizer is left. They are in
// memory.
type Deletions struct {
	mu   sync.Mutex // for map operations
	uids map[types.NamespacedName]types.UID
}

// Add records a deletion that has succeeded.
func (d *Deletions) Add(key types.NamespacedName, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uids == nil {
		d.uids = map[types.NamespacedName]types.UID{}
	}
	d.uids[key] = uid
}

// Has reports whether the deletion of an object has succeeded.
func (d *Deletions) Has(key types.NamespacedName, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uids[key] == uid
}

// Forget drops an object that is gone, or lost the finalizer.
func (d *Deletions) Forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.uids, key)
}
