// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"time"
)

// ErrNotHeld says that this replica may not write to the Clusters of a shard.
var ErrNotHeld = errors.New("this replica does not hold the shard")

// Machine decides for one incarnation of one replica. It is pure. The See methods record what the replica has read,
// Decide and DecideLease return what is due, and Gate says whether the replica may write.
//
// A Machine whose Lease is lost stays that way; the replica continues with another incarnation and another Machine.
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

// sighting is the Lease of another replica and since when it is unchanged.
type sighting struct {
	lease Lease
	since Instant
}

// shard is what the replica knows of one shard.
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

// warmth is how far the apps of a shard are that this replica does not hold.
type warmth int

const (
	cold warmth = iota
	warming
	warm
)

// New returns the Machine of a replica that has neither a Lease nor shards. The incarnation of me has never been used.
func New(me Holder, count int, timing Timing) *Machine {
	return &Machine{
		me: me, timing: timing, others: map[string]sighting{}, absent: map[Holder]Instant{}, over: map[Holder]bool{},
		shards: make([]shard, count),
	}
}

// SeeLease records the Lease of another replica, from a watch or a read. A Lease of the own name is ignored; see SeeOwn.
func (m *Machine) SeeLease(name string, l Lease, now Instant) {
	if before, known := m.others[name]; name == m.me.Name || known && before.lease.Version == l.Version {
		return
	}
	m.others[name] = sighting{lease: l, since: now}
	delete(m.absent, Holder{Name: name, Incarnation: l.Incarnation})
}

// SeeAssignment records the wish: the name of a replica for each shard.
func (m *Machine) SeeAssignment(names []string) {
	for i := range m.shards {
		if i < len(names) {
			m.shards[i].wish = names[i]
		}
	}
}

// SeeRecord records the record of a shard, from a watch, from a read or from the response to a write. An older record
// than the known one changes nothing: epochs only grow, and being free is the last state of an epoch.
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

// Damaged records that the object with the record of a shard is missing, cannot be decoded, or has an earlier epoch. Its holder
// writes it again. Until then no other replica can take the shard, unless the record was set back; the holder with the higher epoch
// remains then.
func (m *Machine) Damaged(number int) { m.shards[number].damaged = true }

// takenFrom returns from where this replica has taken a shard, given the record before that. A holder that is not known to have
// ended has released the shard: to this replica, which has seen its crashes while it was warm, or to none. A promise says
// nothing, because a holder may end between its promise and the release.
func (m *Machine) takenFrom(before Record) Origin {
	if m.over[before.Holder] {
		return Origin{Holder: before.Holder, HasEnded: true}
	}
	return Origin{Holder: before.Released}
}

// endShard ends the hold of a shard. The epoch is never held again.
func (m *Machine) endShard(s *shard) {
	if !m.omit[ruleStaysReleased] {
		s.ended = s.held
	}
	s.held, s.draining, s.warmth = 0, false, cold
}

// Warmed records that the apps of a shard are built and synced, and wait for the shard.
func (m *Machine) Warmed(number int) {
	if s := &m.shards[number]; s.warmth == warming {
		s.warmth = warm
	}
}

// Drained records that no write to a Cluster of a draining shard is in flight: each has a response or has timed out.
func (m *Machine) Drained(number int) {
	if s := &m.shards[number]; s.draining {
		m.endShard(s)
	}
}

// Leave begins the orderly end of the replica. Until the time by, a shard waits for a warm replica; later it is released
// without one.
func (m *Machine) Leave(by time.Time) { m.leaving, m.leaveBy = true, by }

// Gate returns the epoch in which this replica may write to the Clusters of a shard at this moment, or ErrNotHeld.
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

// Draining returns the shards whose gate is closed until Drained.
func (m *Machine) Draining() []int { return m.where(func(s *shard) bool { return s.draining }) }

// Stage is how far the apps of a shard shall be.
type Stage struct {
	// Epoch is the epoch in which this incarnation holds or drains the shard; zero if it does not.
	Epoch int64
	// From is the holder before this epoch: it had ended without a release, or had released the shard to none. It is zero after
	// a release to this replica. In a Stage without an Epoch it is the holder of the shard.
	From Origin
	// Draining says that the gate is closed and writes may be in flight, until Drained.
	Draining bool
	// Warm says that the apps shall be built, or stay built.
	Warm bool
}

// Stage returns how far the apps of a shard shall be. The owner of the apps can follow it instead of the actions WarmUp,
// Cool and Drain. A lost Lease ends all apps.
func (m *Machine) Stage(number int) Stage {
	if m.own.lost {
		return Stage{}
	}
	s := &m.shards[number]
	from := s.from
	if s.held == 0 {
		from = Origin{Holder: s.record.Holder}
	}
	return Stage{Epoch: s.held, From: from, Draining: s.draining, Warm: s.warmth != cold}
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
