// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"maps"
	"time"
)

// claims record by id which remote represents which cluster, so that no cluster has two apps: the name that was registered first has
// the claim, whichever is contacted first. They know the names of this process; the caller names an older remote of another
// (state.Identity.Rival).
type claims map[string]claim

// claim is the remote that has the claim on a cluster, and since when it is registered.
type claim struct {
	name  ClusterName
	since time.Time
}

func (c claim) before(other claim) bool {
	if !c.since.Equal(other.since) {
		return c.since.Before(other.since)
	}
	return c.name < other.name
}

// expect records before the first contact that a remote is the cluster with an id, as known from earlier: one that was registered
// later cannot claim it by being contacted first. It returns the remote that has lost the claim, or "".
func (c claims) expect(id string, mine claim) (loser ClusterName) {
	first, taken := c[id]
	if id == "" || taken && !mine.before(first) {
		return ""
	}
	c[id] = mine
	return first.name
}

// take claims a cluster for a remote that was found to be it, and drops the remote's other claims. It returns the holder if an older
// remote has the claim, or else the remote that has lost it, or "".
func (c claims) take(id string, mine claim) (holder, loser ClusterName) {
	first := c[id]
	if first == mine {
		return "", ""
	}
	c.drop(mine.name)
	if first.name == mine.name {
		first = claim{}
	}
	if first.name != "" && first.before(mine) {
		return first.name, ""
	}
	c[id] = mine
	return "", first.name
}

func (c claims) drop(name ClusterName) {
	maps.DeleteFunc(c, func(_ string, other claim) bool { return other.name == name })
}
