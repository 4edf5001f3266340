// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// claim says which remote is a cluster, and since when it is registered.
type claim struct {
	name  ClusterName
	since time.Time
}

// before reports whether this claim is the older one.
func (c claim) before(other claim) bool {
	if !c.since.Equal(other.since) {
		return c.since.Before(other.since)
	}
	return c.name < other.name
}

// claimKnown notes, before the remote is contacted, which cluster it was before: one that was
// registered later and is contacted first does not get its place. The caller holds mu.
func (r *Registry) claimKnown(name ClusterName, c state.Desired) {
	mine, id := claim{name: name, since: c.Since}, c.Identity.Known
	first, taken := r.claims[id]
	if id == "" || r.allowTwin || taken && !mine.before(first) {
		return
	}
	r.claims[id] = mine
	if a := r.actors[first.name]; taken && a != nil {
		a.probeNow()
	}
}

// claim notes that the remote called name is the cluster with this id, and no other any more. If
// another remote is that cluster already, the one that was registered first has it: claim returns the
// name of an older one, and a newer one is probed at once, which tells it.
func (r *Registry) claim(id string, name ClusterName, since time.Time) (holder ClusterName) {
	if r.allowTwin {
		return ""
	}
	mine := claim{name: name, since: since}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[id] == mine {
		return ""
	}
	for old, c := range r.claims {
		if c.name == name && old != id {
			delete(r.claims, old)
		}
	}
	first, taken := r.claims[id]
	if taken && first.name != name {
		if first.before(mine) {
			return first.name
		}
		if a := r.actors[first.name]; a != nil {
			a.probeNow()
		}
	}
	r.claims[id] = mine
	return ""
}
