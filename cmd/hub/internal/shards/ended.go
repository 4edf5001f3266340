// SPDX-License-Identifier: Apache-2.0

package shards

import "slices"

// MayTake reports whether a shard may be taken, given the holder's Lease and when its response came. The Lease was read
// after the record, so a holder without its Lease has lost it. That does not show that its gate is closed, because
// an administrator may have changed the Lease a moment before. Two things do:
//
//   - the Lease says that its incarnation has ended: whoever wrote that has waited, or is the holder;
//   - the holder is absent from its Lease for the duration, because its replica cannot renew without it.
//
// The absence begins with this read, or with the first sight of its version.
func (m *Machine) MayTake(from string, l Lease, now Instant) bool {
	hasEnded := m.hasEnded(from, l, now)
	if hasEnded && from != "" {
		m.over[from] = true
	}
	return hasEnded
}

func (m *Machine) hasEnded(from string, l Lease, now Instant) bool {
	ignoresAbsence := m.omit[ruleEndedSays]
	if l.Version == "" {
		ignoresAbsence = m.omit[ruleMissing]
	}
	switch {
	case from == "":
		return true
	case l.Held:
		delete(m.absent, from)
		return false
	case l.Ended, ignoresAbsence:
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
func (m *Machine) absentSince(from string, l Lease, now Instant) Instant {
	if seen := m.others[from]; l.Version != "" && l.Version == seen.lease.Version {
		return seen.since
	}
	return now // A missing Lease has no version: it may have existed since it was seen as missing.
}

// awaits: the absence is too short, so that a read of the Lease would not permit to take the shards yet.
func (m *Machine) awaits(h string, now Instant) bool {
	since, known := m.absent[h]
	return known && !m.others[h].lease.Ended && !m.isExpired(sighting{since: since}, now)
}

// look begins a holder's absence with a read, before the shard is assigned here.
func (m *Machine) look(s *shard, now Instant) (action Action, due bool) {
	holder := s.record.Holder
	seen := m.others[holder].lease
	_, known := m.absent[holder]
	if known || holder == "" || holder == m.me || !m.isFresh(now) {
		return Action{}, false
	}
	return Action{Kind: Look, Name: holder, Verify: holder}, !seen.Held && !seen.Ended
}

func (m *Machine) forget(h string) {
	if !slices.ContainsFunc(m.shards, func(s shard) bool { return s.record.Holder == h }) {
		delete(m.absent, h)
		delete(m.over, h)
	}
}
