// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"sync"
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Claims records which remote represents which cluster. The remote that was registered first has the claim. All methods
// may be called from any goroutine.
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

// before reports whether c is older than other.
func (c Claim) before(other Claim) bool {
	if !c.Since.Equal(other.Since) {
		return c.Since.Before(other.Since)
	}
	return c.Name < other.Name
}

// Expect records before the first contact that a remote is the cluster with an id, as known from an earlier contact. A
// remote that was registered later then cannot claim the cluster by being contacted first. Expect returns the name of the
// remote that has lost the claim, or "".
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

// Take claims the cluster with an id for a remote that was found to be that cluster, and drops other claims of the
// remote. It returns the holder if an older remote has the claim. Otherwise it returns the name of the remote that has lost
// the claim, or "".
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
