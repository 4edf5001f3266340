// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"slices"
	"time"
)

// ErrNotHeld says that this replica may not write to the Clusters of a shard.
var ErrNotHeld = errors.New("this replica does not hold the shard")

// Machine decides for one incarnation of one replica. It is pure: See methods record what was read, Decide and DecideLease return
// what is due, Gate says whether to write. After the loss of its Lease the replica continues with another.
type Machine struct {
	me      string
	timing  Timing
	own     ownLease
	others  map[string]sighting // Leases of other incarnations
	absent  map[string]Instant  // since when a holder is known not to have its Lease
	over    map[string]bool     // holders in records that are known to have ended
	drained map[string]bool     // Pods
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
	wish   string // the incarnation that shall hold it
	held   int64  // the epoch in which this incarnation holds it; zero if it does not
	ended  int64  // the last epoch in which it has ended to hold it
	after  string // the holder before, if it had ended without a release

	draining bool // the gate is closed; writes may be in flight
	damaged  bool // the object is not the record
	gone     bool // the object was deleted, and record is what it was at last
	warmth   warmth
}

type warmth int // warmth is for shards that are not held.

const (
	cold warmth = iota
	warming
	warm
)

// New has neither a Lease nor shards. The name me must never have been used. count is that of shards with Clusters.
func New(me string, count int, timing Timing) *Machine {
	return &Machine{
		me: me, timing: timing, others: map[string]sighting{}, absent: map[string]Instant{}, over: map[string]bool{},
		shards: make([]shard, count+1),
	}
}

// SeeLease records the Lease of another replica. For the own see SeeOwn.
func (m *Machine) SeeLease(name string, l Lease, now Instant) {
	if before, known := m.others[name]; name == m.me || known && before.lease.Version == l.Version {
		return
	}
	m.others[name] = sighting{lease: l, since: now}
	if l.Held {
		delete(m.absent, name)
	}
}

// ForgetLease forgets the Lease of another incarnation that is in no record and was removed.
func (m *Machine) ForgetLease(name string) {
	if !slices.ContainsFunc(m.shards, func(s shard) bool { return s.record.Holder == name || s.record.Warm == name }) {
		delete(m.others, name)
	}
}

// SeeAssignment records the wishes: an incarnation for each shard, and the Pods that shall have none.
func (m *Machine) SeeAssignment(names []string, drained map[string]bool) {
	m.drained = drained
	for i := range m.shards {
		if i < len(names) {
			m.shards[i].wish = names[i]
		}
	}
}

// SeeRecord takes a watch, a read or a write's response. An older one changes nothing: epochs grow, and being free ends an epoch.
func (m *Machine) SeeRecord(number int, r Record) {
	s := &m.shards[number]
	freed := s.record.Epoch == r.Epoch && s.record.Epoch > 0 && s.record.Holder == "" && r.Holder != ""
	if (r.Epoch < s.record.Epoch || freed) && !m.omit[ruleStaysReleased] {
		return
	}
	if r.Epoch == s.record.Epoch && s.record.Holder != "" && r.Holder != "" && r.Holder != s.record.Holder && !m.omit[ruleEpochGrows] {
		s.damaged = true // A term has one holder.
		return
	}
	s.damaged, s.gone = false, false
	before := s.record
	after := ""
	if m.over[before.Holder] {
		after = before.Holder
	}
	if s.record = r; r.Holder != before.Holder {
		m.forget(before.Holder)
	}
	switch {
	case r.Holder == m.me && r.Epoch > s.ended:
		if s.held != r.Epoch {
			s.held, s.draining, s.after = r.Epoch, false, after
		}
	case s.held != 0 && (r.Epoch > s.held || r.Epoch == s.held && r.Holder != m.me):
		m.endShard(s)
	}
}

// Damaged records that the record's object is missing, cannot be decoded, or has an earlier epoch; SeeRecord finds another holder. Its
// holder writes it again. Until then no other can take the shard, unless the record was set back; then the holder with the higher
// epoch remains.
func (m *Machine) Damaged(number int) { m.shards[number].damaged = true }

// Deleted records that a record was deleted, which was the last one at that moment. Its holder writes it again; if that has ended, the
// next one creates it: no other can have taken the shard since, because there is no object to compare.
func (m *Machine) Deleted(number int, last Record) {
	m.SeeRecord(number, last)
	s := &m.shards[number]
	s.damaged, s.gone = true, s.record == last
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
	if m.omit[ruleHoldIsRecord] && s.wish == m.me && m.isFresh(now) {
		return s.record.Epoch + 1, nil
	}
	if s.held == 0 || s.draining || !m.isFresh(now) {
		return 0, ErrNotHeld
	}
	return s.held, nil
}

// Phase is how far the apps of a shard shall be.
type Phase struct {
	Epoch int64 // Epoch in which the shard is held or drained; or zero.
	// After is the holder before if it has ended without a release, perhaps because of an app that it was starting.
	After    string
	Draining bool // Draining: the gate is closed and writes may be in flight, until Drained.
	Warm     bool // Warm: the apps shall be built, or stay built.
}

// Stage is how far the apps shall be, in place of WarmUp, Cool and Drain. A lost Lease ends all apps.
func (m *Machine) Stage(number int) Phase {
	if m.own.lost {
		return Phase{}
	}
	s := &m.shards[number]
	phase := Phase{Epoch: s.held, Draining: s.draining, Warm: s.warmth != cold}
	if s.held != 0 {
		phase.After = s.after
	}
	return phase
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
