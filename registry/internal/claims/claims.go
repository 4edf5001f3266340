// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Claims records which remote represents which cluster: the one that was registered first. It is safe for many
// goroutines.
type Claims struct {
	mu   sync.Mutex // protects byID; held for map operations only
	byID map[string]Claim
}

// Claim is the remote that has the claim on a cluster, and since when it is registered.
type Claim struct {
	Name  state.ClusterName
	Since time.Time
}

// New returns Claims without a claim.
func New() *Claims { return &Claims{byID: map[string]Claim{}} }

func (c Claim) before(other Claim) bool {
	if !c.Since.Equal(other.Since) {
		return c.Since.Before(other.Since)
	}
	return c.Name < other.Name
}

// Expect records before the first contact that a remote is the cluster with an id, as known from earlier: one that was
// registered later cannot claim it by being contacted first. It returns the remote that has lost the claim, or "".
func (c *Claims) Expect(id string, mine Claim) (loser state.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, taken := c.byID[id]
	if id == "" || taken && !mine.before(first) {
		return ""
	}
	c.byID[id] = mine
	return first.Name
}

// Take claims a cluster for a remote that was found to be it, and drops the remote's other claims. It returns the
// holder if an older remote has the claim, or else the remote that has lost it, or "".
func (c *Claims) Take(id string, mine Claim) (holder, loser state.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[id] == mine {
		return "", ""
	}
	for old, other := range c.byID {
		if other.Name == mine.Name && old != id {
			delete(c.byID, old)
		}
	}
	first, taken := c.byID[id]
	if taken && first.Name != mine.Name {
		if first.before(mine) {
			return first.Name, ""
		}
		loser = first.Name
	}
	c.byID[id] = mine
	return "", loser
}

// Drop removes the claim of a remote.
func (c *Claims) Drop(name state.ClusterName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, other := range c.byID {
		if other.Name == name {
			delete(c.byID, id)
		}
	}
}
