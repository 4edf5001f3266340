// SPDX-License-Identifier: Apache-2.0

package shards

type ownLease struct {
	seen    sighting
	known   bool // it was read, or written
	claimed bool // this incarnation has renewed it, or created it with a response
	ending  bool // the release of the Lease is on its way, perhaps
	lost    bool
	renewed Instant // the beginning of the last successful renewal
}

// SeeOwn records the own Lease from a read, with the time of the response: it may have been renewed meanwhile. A watch does not
// do: it may be older than the claim, and look like a loss. No read may begin before the last result is recorded.
//
// A Lease of this name is this incarnation's, which alone creates it. It is lost without its holder, and after the claim if it is
// missing or another object: a create that was repeated may arrive after the Lease has ended and was removed.
func (m *Machine) SeeOwn(l Lease, now Instant) {
	o := &m.own
	isAnother := o.claimed && l.UID != o.seen.lease.UID && !m.omit[ruleSameLease]
	if l.Version != "" && !l.Held || o.claimed && l.Version == "" || isAnother {
		m.lose()
		return
	}
	if !o.known || o.seen.lease.Version != l.Version {
		o.seen = sighting{lease: l, since: now}
	}
	o.known = true
}

// Renewed records an accepted claim or renewal, with the beginning of the request and the Lease of the response.
func (m *Machine) Renewed(l Lease, began Instant) {
	o := &m.own
	if o.lost {
		return
	}
	lull := m.timing.Duration - m.timing.Deadline
	if (!o.claimed || began.longestSince(o.renewed) > lull) && !m.omit[ruleObserverContact] {
		m.restartObservation(began)
	}
	o.seen, o.known, o.claimed = sighting{lease: l, since: began}, true, true
	o.renewed = began
}

// restartObservation: after a time without contact an unchanged Lease proves nothing, since its replica may have had none.
func (m *Machine) restartObservation(now Instant) {
	for name, s := range m.others {
		s.since = now
		m.others[name] = s
	}
	clear(m.absent)
}

func (m *Machine) lose() {
	m.own.lost = true
	for i := range m.shards {
		if s := &m.shards[i]; s.held != 0 {
			m.endShard(s)
		}
	}
}

// Lost reports whether the Lease was overwritten, deleted or released.
func (m *Machine) Lost() bool { return m.own.lost }

// isFresh: no other replica can have overwritten the Lease.
func (m *Machine) isFresh(now Instant) bool {
	if !m.own.claimed || m.own.ending || m.own.lost {
		return false
	}
	age := now.longestSince(m.own.renewed)
	if m.omit[ruleLongerClock] {
		age = now.Monotonic.Sub(m.own.renewed.Monotonic)
	}
	deadline := m.timing.Deadline
	if m.omit[ruleMargin] {
		deadline = m.timing.Duration
	}
	return age <= deadline || m.omit[ruleGateClock]
}

// DecideLease is due every Timing.Retry. alive says that the reconcilers make progress. The claim creates the Lease, at once, since
// its name was never used. A create without a response is repeated. It may have succeeded: then the next renewal is the claim.
func (m *Machine) DecideLease(now Instant, alive bool) (action Action, due bool) {
	o := &m.own
	next := Lease{Held: true, Leaving: m.leaving, Renewed: now.Wall, Version: o.seen.lease.Version}
	switch {
	case o.lost:
		return Action{}, false
	case !alive && !m.omit[ruleProgress]:
		return Action{}, false
	case o.claimed && m.leaving && m.isDone():
		next.Held, next.Ended = false, true
		o.ending = true // A holder may release a shard to this replica meanwhile.
		return Action{Kind: GiveBack, Lease: next}, true
	case !o.claimed && m.leaving:
		return Action{}, false
	}
	return Action{Kind: Renew, Lease: next}, true
}

// GaveBack records that the API server has accepted GiveBack.
func (m *Machine) GaveBack() { m.lose() }

// HasLeft reports whether an incarnation that leaves has nothing but its Lease.
func (m *Machine) HasLeft() bool { return m.leaving && m.isDone() }

func (m *Machine) isDone() bool {
	return len(m.where(func(s *shard) bool { return s.held != 0 || s.record.Holder == m.me })) == 0
}

// isExpired: the incarnation no longer writes.
func (m *Machine) isExpired(s sighting, now Instant) bool {
	switch {
	case m.omit[ruleWait]:
		return true
	case m.omit[ruleOwnClock]:
		return now.Wall.Sub(s.lease.Renewed) >= m.timing.Duration
	}
	return now.Monotonic.Sub(s.since.Monotonic) >= m.timing.Duration
}
