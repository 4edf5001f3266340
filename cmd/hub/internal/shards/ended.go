// SPDX-License-Identifier: Apache-2.0

package shards

import "slices"

// MayTake reports whether a shard may be taken, given the holder's Lease and when its response came. The Lease was read
// after the record, so a Lease without the incarnation has lost it. That does not show that its gate is closed, because
// an administrator may have changed the Lease a moment before. Two things do:
//
//   - the Lease says that the incarnation has ended: whoever wrote that has waited, or is the holder;
//   - the incarnation is absent for the duration, because its replica cannot renew without it.
//
// The absence begins with this read, or with the first sight of its version.
func (m *Machine) MayTake(from Holder, l Lease, now Instant) bool {
	hasEnded := m.hasEnded(from, l, now)
	if hasEnded && !from.isZero() {
		m.over[from] = true
	}
	return hasEnded
}

func (m *Machine) hasEnded(from Holder, l Lease, now Instant) bool {
	ignoresAbsence := m.omit[ruleEndedSays]
	if l.Version == "" {
		ignoresAbsence = m.omit[ruleMissing]
	}
	switch {
	case from.isZero():
		return true
	case l.Incarnation == from.Incarnation:
		delete(m.absent, from)
		return false
	case l.Ended == from.Incarnation, ignoresAbsence:
		return true
	}
	since, known := m.absent[from]
	if !known {
		since = m.absentSince(from, l, now)
		m.absent[from] = since
	}
	return m.isExpired(sighting{since: since}, now)
}

// absentSince is since when the holder cannot have renewed the Lease, whose version comes after each of the holder's.
func (m *Machine) absentSince(from Holder, l Lease, now Instant) Instant {
	if seen := m.others[from.Name]; l.Version != "" && l.Version == seen.lease.Version {
		return seen.since
	}
	return now // A missing Lease has no version: it may have existed since it was seen as missing.
}

// seeEarlier begins the absence of earlier incarnations before the claim. The read began after their records had been read.
func (m *Machine) seeEarlier(l Lease, now Instant) {
	known := map[Holder]bool{}
	for i := range m.shards {
		h := m.shards[i].record.Holder
		if h.Name != m.me.Name || h == m.me {
			continue
		}
		known[h] = true
		if _, isAbsent := m.absent[h]; m.earlier[h] && !isAbsent && h.Incarnation != l.Incarnation {
			m.absent[h] = now
		}
	}
	m.earlier = known
}

// awaits: the absence is too short, so that a read of the Lease would not permit to take the shards yet.
func (m *Machine) awaits(h Holder, now Instant) bool {
	since, known := m.absent[h]
	return known && m.others[h.Name].lease.Ended != h.Incarnation && !m.isExpired(sighting{since: since}, now)
}

// look begins a holder's absence with a read, before the shard is assigned here.
func (m *Machine) look(s *shard, now Instant) (action Action, due bool) {
	holder := s.record.Holder
	seen := m.others[holder.Name].lease
	_, known := m.absent[holder]
	if known || holder.isZero() || holder.Name == m.me.Name || !m.isFresh(now) {
		return Action{}, false
	}
	isGone := seen.Incarnation != holder.Incarnation && seen.Ended != holder.Incarnation
	return Action{Kind: Look, Name: holder.Name, Verify: holder}, isGone
}

func (m *Machine) forget(h Holder) {
	if !slices.ContainsFunc(m.shards, func(s shard) bool { return s.record.Holder == h }) {
		delete(m.absent, h)
		delete(m.over, h)
	}
}
