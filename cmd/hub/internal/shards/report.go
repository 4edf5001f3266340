// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"slices"
	"time"
)

// Record is that of a shard as far as this replica knows; zero if it was not read. Whether to write to a remote, ask Gate.
func (m *Machine) Record(shard int) Record { return m.shards[shard].record }

// IsHolder reports whether a record names an incarnation as its holder.
func (m *Machine) IsHolder(name string) bool {
	return slices.ContainsFunc(m.shards, func(s shard) bool { return s.record.Holder == name })
}

// IsNeeded reports whether a selected incarnation holds a shard or waits for one, as far as records say. One that was not read may
// name every incarnation.
func (m *Machine) IsNeeded(isSelected func(name string) bool) bool {
	return slices.ContainsFunc(m.shards, func(s shard) bool {
		return s.record.Version == "" || isSelected(s.record.Holder) || isSelected(s.record.Warm)
	})
}

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
		if PodOf(name) == pod && m.isLive(name, now) && m.IsNeeded(func(of string) bool { return of == name }) {
			return true
		}
	}
	return false
}
