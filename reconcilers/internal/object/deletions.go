// SPDX-License-Identifier: Apache-2.0

package object

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Deletions are the objects for which everything that a deletion takes has succeeded, and which were still there when
// they were last read. All that is left to do for them is to remove the finalizer. They are kept in memory.
type Deletions struct {
	mu   sync.Mutex // protects uids, for map operations only
	uids map[types.NamespacedName]types.UID
}

// Add notes that the deletion of an object has succeeded.
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

// Forget drops what is known of an object that is gone, or no longer has the finalizer.
func (d *Deletions) Forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.uids, key)
}
