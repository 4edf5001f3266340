// SPDX-License-Identifier: Apache-2.0

package object

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Deletions are the objects whose deletion has succeeded, but which still existed when they were last read. The only
// remaining step is to remove the finalizer. They are kept in memory.
type Deletions struct {
	mu   sync.Mutex // protects uids, for map operations only
	uids map[types.NamespacedName]types.UID
}

// Add records that the deletion of an object has succeeded.
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

// Forget drops the record of an object that is gone, or no longer has the finalizer.
func (d *Deletions) Forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.uids, key)
}
