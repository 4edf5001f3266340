// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"time"
)

// ErrNotHeld says that this replica may not write to the Clusters of a shard.
var ErrNotHeld = errors.New("this replica does not hold the shard")

// Machine decides for one incarnation of one replica. It is pure: See methods record what was read, Decide and DecideLease return
// what is due, Gate says whether to write. After the loss of its Lease the replica continues with another.
type Machine struct {
	me      Holder
	timing  Timing
	own     ownLease
	earlier map[Holder]bool // of this name, in records when the own Lease was read last
	others  map[string]sighting
	absent  map[Holder]Instant // since when the incarnation of a holder is known not to be in its Lease
	over    map[Holder]bool    // holders in records that are known to have ended
	shards  []shard
	leaving bool
	leaveBy time.Time // by the monotonic clock
	omit    rules     // of tests
}

// sighting has since when the Lease is unchanged.
type sighting struct {
	lease Lease
	since Instant
}

type shard struct {
	record Record
	wish   string // the name of the replica that shall hold it
	held   int64  // the epoch in which this incarnation holds it; zero if it does not
	ended  int64  // the last epoch in which it has ended to hold it
	from   Origin // the holder that it had before; zero if that has released it to this replica

	draining bool // the gate is closed; writes may be in flight
	damaged  bool // the object is not the record
	warmth   warmth
}

type warmth int // warmth is for shards that are not held.

const (
	cold warmth = iota
	warming
	warm
)

// New has neither a Lease nor shards. The incarnation of me must never have been used.
func New(me Holder, count int, timing Timing) *Machine {
	return &Machine{
		me: me, timing: timing, others: map[string]sighting{}, absent: map[Holder]Instant{}, over: map[Holder]bool{},
		shards: make([]shard, count),
	}
}

// SeeLease records the Lease of another replica. For the own see SeeOwn.
func (m *Machine) SeeLease(name string, l Lease, now Instant) {
	if before, known := m.others[name]; name == m.me.Name || known && before.lease.Version == l.Version {
		return
	}
	m.others[name] = sighting{lease: l, since: now}
	delete(m.absent, Holder{Name: name, Incarnation: l.Incarnation})
}

// SeeAssignment records the wish: a replica for each shard.
func (m *Machine) SeeAssignment(names []string) {
	for i := range m.shards {
		if i < len(names) {
			m.shards[i].wish = names[i]
		}
	}
}

// SeeRecord takes a watch, a read or a write's response. An older one changes nothing: epochs grow, and being free ends an epoch.
func (m *Machine) SeeRecord(number int, r Record) {
	s := &m.shards[number]
	freed := s.record.Epoch == r.Epoch && s.record.Epoch > 0 && s.record.Holder.isZero() && !r.Holder.isZero()
	if (r.Epoch < s.record.Epoch || freed) && !m.omit[ruleStaysReleased] {
		return
	}
	s.damaged = false
	before := s.record
	from := m.takenFrom(before)
	if s.record = r; r.Holder != before.Holder {
		m.forget(before.Holder)
	}
	switch {
	case r.Holder == m.me && r.Epoch > s.ended:
		if s.held != r.Epoch {
			s.held, s.draining, s.from = r.Epoch, false, from
		}
	case s.held != 0 && (r.Epoch > s.held || r.Epoch == s.held && r.Holder != m.me):
		m.endShard(s)
	}
}

// Damaged records that the record's object is missing, cannot be decoded, or has an earlier epoch. Its holder writes it again.
// Until then no other can take the shard, unless the record was set back; then the holder with the higher epoch remains.
func (m *Machine) Damaged(number int) { m.shards[number].damaged = true }

// takenFrom gets the record before. A holder that is not known to have ended has released the shard: to this replica, which has
// seen its crashes while warm, or to none. A promise says nothing, because a holder may end before the release.
func (m *Machine) takenFrom(before Record) Origin {
	if m.over[before.Holder] {
		return Origin{Holder: before.Holder, HasEnded: true}
	}
	return Origin{Holder: before.Released}
}

// The epoch is never held again.
func (m *Machine) endShard(s *shard) {
	if !m.omit[ruleStaysReleased] {
		s.ended = s.held
	}
	s.held, s.draining, s.warmth = 0, false, cold
}

// Warmed records that the apps of a shard are synced, and wait for it.
func (m *Machine) Warmed(number int) {
	if s := &m.shards[number]; s.warmth == warming {
		s.warmth = warm
	}
}

// Drained records that no write to a draining shard is in flight.
func (m *Machine) Drained(number int) {
	if s := &m.shards[number]; s.draining {
		m.endShard(s)
	}
}

// Leave begins the orderly end. Until by, a shard waits for a warm replica; later it is released without one.
func (m *Machine) Leave(by time.Time) { m.leaving, m.leaveBy = true, by }

// Gate returns the epoch in which this replica may write now, or ErrNotHeld.
func (m *Machine) Gate(number int, now Instant) (epoch int64, err error) {
	s := &m.shards[number]
	if m.omit[ruleHoldIsRecord] && s.wish == m.me.Name && m.isFresh(now) {
		return s.record.Epoch + 1, nil
	}
	if s.held == 0 || s.draining || !m.isFresh(now) {
		return 0, ErrNotHeld
	}
	return s.held, nil
}

// Draining shards have a closed gate until Drained.
func (m *Machine) Draining() []int { return m.where(func(s *shard) bool { return s.draining }) }

// Phase is how far the apps of a shard shall be.
type Phase struct {
	Epoch int64 // Epoch in which the shard is held or drained; or zero.
	// From had ended without a release or released to none; zero after a release to this replica; without Epoch, the holder.
	From     Origin
	Draining bool // Draining: the gate is closed and writes may be in flight, until Drained.
	Warm     bool // Warm: the apps shall be built, or stay built.
}

// Stage is how far the apps shall be, in place of WarmUp, Cool and Drain. A lost Lease ends all apps.
func (m *Machine) Stage(number int) Phase {
	if m.own.lost {
		return Phase{}
	}
	s := &m.shards[number]
	from := s.from
	if s.held == 0 {
		from = Origin{Holder: s.record.Holder}
	}
	return Phase{Epoch: s.held, From: from, Draining: s.draining, Warm: s.warmth != cold}
}

// Held returns the shards that this incarnation holds or drains.
func (m *Machine) Held() []int { return m.where(func(s *shard) bool { return s.held != 0 }) }

func (m *Machine) where(f func(*shard) bool) []int {
	var numbers []int
	for i := range m.shards {
		if f(&m.shards[i]) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}
