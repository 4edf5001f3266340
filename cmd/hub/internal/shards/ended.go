// SPDX-License-Identifier: Apache-2.0

package shards

import "slices"

// MayTake reports whether a shard may be taken from a holder, given the Lease of the holder and the time of the response
// that had it. The read of the Lease began after the record was read, and so after the holder had written the Lease: a
// Lease without the incarnation has lost it. That does not show that the gate of the holder is closed, because an
// administrator may have changed or deleted the Lease a moment before. Two things show it:
//
//   - the Lease says that this incarnation has ended: whoever wrote that has waited, or is the holder itself;
//   - the incarnation has been absent from the Lease for the duration, because its replica cannot renew without it.
//
// The absence begins with this read, or with the first sight of the version that it found.
func (m *Machine) MayTake(from Holder, l Lease, now Instant) bool {
	hasEnded := m.hasEnded(from, l, now)
	if hasEnded && !from.isZero() {
		m.over[from] = true
	}
	return hasEnded
}

// hasEnded is MayTake without a record of it.
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

// absentSince returns since when the incarnation of a holder cannot have renewed a Lease that is read now without it. The
// version that is read comes after each version of the holder.
func (m *Machine) absentSince(from Holder, l Lease, now Instant) Instant {
	if seen := m.others[from.Name]; l.Version != "" && l.Version == seen.lease.Version {
		return seen.since
	}
	return now // A missing Lease has no version: it may have existed since it was seen as missing.
}

// seeEarlier records which earlier incarnations of this replica are absent from its Lease, which has been read now, so that
// the wait for them does not begin with the claim. The read began when the read before it had ended, and so after the
// records had been read that had these holders already.
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

// awaits reports whether a holder is absent from its Lease for less than the duration, so that a read of the Lease would not
// permit to take its shards yet.
func (m *Machine) awaits(h Holder, now Instant) bool {
	since, known := m.absent[h]
	return known && m.others[h.Name].lease.Ended != h.Incarnation && !m.isExpired(sighting{since: since}, now)
}

// look returns the read with which the absence of a holder begins, so that it does not begin only when the shard is assigned
// to this replica.
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

// forget removes what is known of the end of a holder that is in no record.
func (m *Machine) forget(h Holder) {
	if !slices.ContainsFunc(m.shards, func(s shard) bool { return s.record.Holder == h }) {
		delete(m.absent, h)
		delete(m.over, h)
	}
}
