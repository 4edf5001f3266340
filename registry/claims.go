// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"
	"time"
)

// claims records which remote represents which cluster, so that no cluster has two apps. The remote that was registered
// first has the claim. claims is the place to change when several processes share a fleet.
type claims struct {
	mu   sync.Mutex // protects byID; held for map operations only
	byID map[string]claim
}

// claim is the remote that has the claim on a cluster.
type claim struct {
	name  ClusterName
	since time.Time
}

func newClaims() *claims { return &claims{byID: map[string]claim{}} }

// before reports whether c is older than other.
func (c claim) before(other claim) bool {
	if !c.since.Equal(other.since) {
		return c.since.Before(other.since)
	}
	return c.name < other.name
}

// expect records before the first contact that a remote is the cluster with an id, as known from an earlier contact. A
// remote that was registered later then cannot claim the cluster by being contacted first. expect returns the name of the
// remote that has lost the claim, or "".
func (c *claims) expect(id string, mine claim) (loser ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, taken := c.byID[id]
	if id == "" || taken && !mine.before(first) {
		return ""
	}
	c.byID[id] = mine
	return first.name
}

// take claims the cluster with an id for a remote that was found to be that cluster, and drops other claims of the
// remote. It returns the holder if an older remote has the claim. Otherwise it returns the name of the remote that has lost
// the claim, or "".
func (c *claims) take(id string, mine claim) (holder, loser ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[id] == mine {
		return "", ""
	}
	for old, other := range c.byID {
		if other.name == mine.name && old != id {
			delete(c.byID, old)
		}
	}
	first, taken := c.byID[id]
	if taken && first.name != mine.name {
		if first.before(mine) {
			return first.name, ""
		}
		loser = first.name
	}
	c.byID[id] = mine
	return "", loser
}

// drop removes the claim of a remote.
func (c *claims) drop(name ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, other := range c.byID {
		if other.name == name {
			delete(c.byID, id)
		}
	}
}

// claim claims the cluster with this id for the remote called name. It returns the name of an older remote that has the
// claim, if any. A younger remote that loses its claim is probed at once, and learns of it.
func (r *Registry) claim(id string, name ClusterName, since time.Time) (holder ClusterName) {
	if r.allowTwin {
		return ""
	}
	holder, loser := r.claims.take(id, claim{name: name, since: since})
	r.mu.RLock()
	a := r.actors[loser]
	r.mu.RUnlock()
	if a != nil {
		a.probeNow()
	}
	return holder
}
