// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"slices"
	"time"
)

// HolderOf is as far as this replica knows, for people and for objects that are not the remote's; else ask Gate.
func (m *Machine) HolderOf(shard int) string { return m.shards[shard].record.Holder }

// VersionOf is that of a shard's record, as far as this replica knows.
func (m *Machine) VersionOf(shard int) string { return m.shards[shard].record.Version }

// HasNoHolder reports whether the record of a shard names none, or one that is known not to have its Lease.
func (m *Machine) HasNoHolder(shard int) bool {
	holder := m.shards[shard].record.Holder
	return holder != m.me && !m.others[holder].lease.Held
}

// UnchangedFor is how long another's Lease is known to be as it is.
func (m *Machine) UnchangedFor(name string, now Instant) time.Duration {
	return now.Monotonic.Sub(m.others[name].since.Monotonic)
}

// IsFresh reports whether the Lease was renewed so recently that no other replica can have ended this one.
func (m *Machine) IsFresh(now Instant) bool { return m.isFresh(now) }

// IsActive reports whether this incarnation holds a shard, or builds its apps to hold it.
func (m *Machine) IsActive() bool {
	return len(m.where(func(s *shard) bool { return s.held != 0 || s.warmth != cold })) > 0
}

// LiveHolder returns the incarnation that holds a shard and renews its Lease, as known here, or "". For a write to a remote, ask Gate.
func (m *Machine) LiveHolder(shard int, now Instant) string {
	holder := m.shards[shard].record.Holder
	if holder == m.me && m.isFresh(now) || holder != m.me && m.isLive(holder, now) {
		return holder
	}
	return ""
}

// IsAnyLive reports whether an incarnation of a Pod that has a shard, or waits for one, renews its Lease.
func (m *Machine) IsAnyLive(pod string, now Instant) bool {
	for name := range m.others {
		if PodOf(name) == pod && m.isLive(name, now) && m.mayHave(name) {
			return true
		}
	}
	return false
}

// mayHave: a record that was not read may name every incarnation.
func (m *Machine) mayHave(name string) bool {
	return slices.ContainsFunc(m.shards, func(s shard) bool {
		return s.record.Version == "" || s.record.Holder == name || s.record.Warm == name
	})
}
