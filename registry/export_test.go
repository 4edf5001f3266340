// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"time"
)

// LagsFor returns the kind of an informer of a module in the app of a remote that is not synced or Stale; empty for
// none.
func (r *Registry) LagsFor(name ClusterName, module string) string {
	a, err := r.actor(name)
	if err != nil {
		return ""
	}
	e := a.current.Load().epoch
	if e == nil {
		return ""
	}
	return e.LagsFor(module, time.Now())
}
