// SPDX-License-Identifier: Apache-2.0

package object

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Deletions are objects whose deletion has succeeded, and only the removal of the finalizer is left. They are in
// memory.
type Deletions struct{ uids sync.Map } // types.UID by types.NamespacedName

// Add records a deletion that has succeeded.
func (d *Deletions) Add(key types.NamespacedName, uid types.UID) { d.uids.Store(key, uid) }

// Has reports whether the deletion of an object has succeeded.
func (d *Deletions) Has(key types.NamespacedName, uid types.UID) bool {
	done, _ := d.uids.Load(key)
	return done == uid
}

// Forget drops an object that is gone, or lost the finalizer.
func (d *Deletions) Forget(key types.NamespacedName) { d.uids.Delete(key) }
