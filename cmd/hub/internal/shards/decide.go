// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"math"
	"slices"
)

// Action is due: the replica carries it out and feeds the result back.
type Action struct {
	Kind   ActionKind
	Shard  int
	Name   string
	Lease  Lease  // Lease to write if the object has its Version; without one it is created.
	Record Record // Record to write if the object has its Version; without one it is created.
	Verify string // Verify is the holder for Take and Look, empty if free: read its Lease, and ask MayTake. Take needs its yes, Look records only.
}

// ActionKind is the kind of an Action.
type ActionKind int

// Actions on the own Lease, Leases of others, apps and records, and one that only reads.
const (
	Renew    ActionKind = iota + 1 // write the own Lease
	GiveBack                       // release the own Lease, as the last step of an orderly end
	Look                           // read the Lease of a holder that does not have it
	Fence                          // overwrite the Lease of another replica, whose incarnation ends
	WarmUp                         // build the apps of a shard, without the permission to write
	Cool                           // end the apps of a shard that another replica shall hold
	Announce                       // write into the record that the apps are warm, or that the holder promises the shard to them
	Take                           // write this incarnation into the record
	Drain                          // end leases and runnables of a shard, and wait for its writes in flight
	Release                        // give the shard to the warm replica, or to none
	Repair                         // write the record again, whatever is in its place
)

// Live incarnations may get shards: their Leases are neither released nor expired, and they are not leaving.
func (m *Machine) Live(now Instant) []string {
	var names []string
	if m.isFresh(now) && !m.leaving {
		names = append(names, m.me)
	}
	for name, s := range m.others {
		if s.lease.Held && !s.lease.Leaving && now.Monotonic.Sub(s.since.Monotonic) < m.timing.Duration {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Assignable replicas are live and not drained, or all if all are drained: a Cluster needs a runner more than a wish.
func (m *Machine) Assignable(now Instant) []string {
	live := m.Live(now)
	names := slices.DeleteFunc(slices.Clone(live), m.IsDrained)
	if len(names) == 0 && !m.omit[ruleAllDrained] {
		return live
	}
	return names
}

// IsDrained is as far as this replica knows.
func (m *Machine) IsDrained(name string) bool { return m.drained[PodOf(name)] }

// Current is for Assign: who shall hold each shard, or the holder if that one gets no shards.
func (m *Machine) Current(now Instant) []string {
	assignable := m.Assignable(now)
	current := make([]string, len(m.shards))
	for i := range m.shards {
		s := &m.shards[i]
		if current[i] = s.wish; !slices.Contains(assignable, s.wish) {
			current[i] = s.record.Holder
		}
	}
	return current
}

// Decide returns due actions on shards and Leases of others. One without a known result is returned again.
func (m *Machine) Decide(now Instant) []Action {
	var actions []Action
	named := map[string]bool{} // Leases of other replicas with an action
	for i := range m.shards {
		a, due := m.decideShard(i, now)
		if !due {
			a, due = m.look(&m.shards[i], now)
		}
		if !due || a.Name != "" && named[a.Name] {
			continue
		}
		named[a.Name] = true
		a.Shard = i
		actions = append(actions, a)
	}
	return actions
}

// InOrder sorts actions: those of shard Once, then those of shards with the most Clusters, of which there are sizes, if known.
func InOrder(actions []Action, sizes []int) []Action {
	rank := func(a Action) int {
		switch {
		case a.Shard == Once:
			return math.MaxInt
		case a.Shard < len(sizes):
			return sizes[a.Shard]
		}
		return 0
	}
	slices.SortStableFunc(actions, func(x, y Action) int { return cmp.Compare(rank(y), rank(x)) })
	return actions
}

func (m *Machine) decideShard(i int, now Instant) (action Action, due bool) {
	s := &m.shards[i]
	isMine := s.record.Holder == m.me
	switch {
	case s.damaged && isMine && m.isFresh(now):
		return Action{Kind: Repair, Record: s.record}, true
	case m.own.lost || s.draining || s.record.Version == "" && !m.omit[ruleRecordsRemain]:
		return Action{}, false
	case isMine && s.held == 0 && s.wish == m.me && m.omit[ruleStaysReleased]:
		s.held = s.record.Epoch
		return Action{}, false
	case isMine && s.held == 0: // Drained. Nothing reopens it.
		return m.release(s, now), true
	case isMine:
		return m.handOver(s, now)
	case s.wish == m.me && !m.leaving && m.isFresh(now):
		return m.acquire(s, now)
	case s.record.Warm == m.me: // Withdrawn first, or the holder would release the shard to a cold replica.
		return m.announce(s, "", false), !s.record.Promised
	case s.warmth != cold:
		s.warmth = cold
		return Action{Kind: Cool}, true
	}
	return Action{}, false
}

func (m *Machine) announce(s *shard, warm string, promised bool) Action {
	next := s.record
	next.Warm, next.Promised = warm, promised
	return Action{Kind: Announce, Record: next}
}

// release gives a drained shard to the warm replica in the record itself, so that it goes to none that has withdrawn.
func (m *Machine) release(s *shard, now Instant) Action {
	next := Record{Epoch: s.record.Epoch, Warm: s.record.Warm, Version: s.record.Version}
	if heir := s.record.Warm; m.isLive(heir, now) {
		next = m.hold(heir, s.record)
	}
	return Action{Kind: Release, Record: next}
}

func (m *Machine) hold(by string, before Record) Record {
	next := Record{Holder: by, Epoch: before.Epoch + 1, Version: before.Version}
	if m.omit[ruleEpochGrows] {
		next.Epoch = max(1, before.Epoch)
	}
	return next
}

func (m *Machine) isLive(name string, now Instant) bool {
	seen := m.others[name]
	return seen.lease.Held && !m.isExpired(seen, now)
}

func (m *Machine) handOver(s *shard, now Instant) (action Action, due bool) {
	isLate := m.leaving && !now.Monotonic.Before(m.leaveBy)
	isDue := m.isToHandOver(s, now)
	switch {
	case isLate, isDue && (s.record.Promised || m.omit[ruleWarm] || m.omit[rulePromise]):
		s.draining = true
		return Action{Kind: Drain}, true
	case isDue != s.record.Promised:
		return m.announce(s, s.record.Warm, isDue), true
	}
	return Action{}, false
}

// isToHandOver: the shard shall go to another replica, which is ready.
func (m *Machine) isToHandOver(s *shard, now Instant) bool {
	if s.wish == m.me || s.wish == "" {
		return false
	}
	return m.isLive(s.wish, now) && (s.record.Warm == s.wish || m.omit[ruleWarm])
}

func (m *Machine) acquire(s *shard, now Instant) (action Action, due bool) {
	holder := s.record.Holder
	seen := m.others[holder]
	hasLease := seen.lease.Held
	switch {
	case !hasLease && !m.awaits(holder, now):
		return m.take(s), true // MayTake decides: the watch of the Leases may be behind the watch of the records.
	case hasLease && m.isExpired(seen, now):
		if m.omit[ruleOverwrite] {
			return m.take(s), true
		}
		fence := Lease{UID: seen.lease.UID, Ended: true, Renewed: seen.lease.Renewed, Version: seen.lease.Version}
		return Action{Kind: Fence, Name: holder, Lease: fence}, true
	case s.warmth == cold:
		s.warmth = warming
		return Action{Kind: WarmUp}, true
	case s.warmth == warm && s.record.Warm != m.me:
		return m.announce(s, m.me, false), true
	}
	return Action{}, false
}

// take is from a holder that is verified to have ended.
func (m *Machine) take(s *shard) Action {
	next := m.hold(m.me, s.record)
	if s.gone {
		next.Version = ""
	}
	if m.omit[ruleLiveRead] || m.omit[ruleOverwrite] {
		return Action{Kind: Take, Record: next}
	}
	return Action{Kind: Take, Record: next, Verify: s.record.Holder}
}
