// SPDX-License-Identifier: Apache-2.0

package shards

// HolderOf returns the holder of a shard, as far as this replica knows. It is for people and for decisions about objects that
// are not the remote's; for a write to a remote, ask Gate.
func (m *Machine) HolderOf(shard int) Holder { return m.shards[shard].record.Holder }

// IsFresh reports whether this incarnation has its Lease and renewed it so recently that no other replica can have ended it.
func (m *Machine) IsFresh(now Instant) bool { return m.isFresh(now) }

// LiveHolder returns the name of the replica that holds a shard and renews its Lease, as far as this replica knows; empty for
// none. For a write to a remote, ask Gate.
func (m *Machine) LiveHolder(shard int, now Instant) string {
	holder := m.shards[shard].record.Holder
	if holder == m.me && m.isFresh(now) || holder != m.me && m.isLive(holder, now) {
		return holder.Name
	}
	return ""
}

// LeaseOf returns the Lease of another replica, and since when it is unchanged by the clocks of this replica. A Lease that this
// replica has never seen counts as missing from now on.
func (m *Machine) LeaseOf(name string, now Instant) (l Lease, since Instant) {
	if _, known := m.others[name]; !known {
		m.SeeLease(name, Lease{}, now)
	}
	seen := m.others[name]
	return seen.lease, seen.since
}
