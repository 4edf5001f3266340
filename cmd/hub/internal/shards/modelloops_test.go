// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// renew keeps the Lease of the process, one incarnation after the other.
func (p *process) renew() {
	for mustRead := false; ; {
		mustRead = p.renewOnce(mustRead)
		p.mu.Lock()
		lost, left := p.machine.Lost(), p.machine.leaving
		p.mu.Unlock()
		if lost && left {
			p.kill()
		}
		for lost && p.writesInFlight() > 0 {
			p.wait(resync)
		}
		if lost {
			p.mu.Lock()
			p.reincarnate()
			p.mu.Unlock()
			mustRead = false
		}
		p.wait(timing().Retry - 100*time.Millisecond + p.random(200*time.Millisecond))
	}
}

// renewOnce renews the Lease and reports whether it has to be read before the next renewal.
func (p *process) renewOnce(mustRead bool) bool {
	p.mu.Lock()
	m := p.machine
	p.mu.Unlock()
	key := kindLease + m.me
	if mustRead {
		value, err := p.call(func() (any, error) { return p.w.server.get(key), nil })
		if err != nil {
			return true
		}
		lease, _ := value.(Lease)
		p.mu.Lock()
		m.SeeOwn(lease, p.now())
		p.mu.Unlock()
	}
	p.mu.Lock()
	began := p.now()
	action, due := m.DecideLease(began, !time.Now().Before(p.hungUntil))
	p.mu.Unlock()
	if !due {
		return true
	}
	version := action.Lease.Version
	if p.w.omit[ruleRenewCAS] && m.own.claimed {
		version = anyVersion
	}
	value, err := p.call(func() (any, error) { return p.w.server.write(key, action.Lease, version) })
	if err != nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.own.claimed && began.longestSince(m.own.renewed) > timing().Deadline {
		p.w.noteReopened()
	}
	if p.w.omit[ruleFromBegin] {
		began = p.now()
	}
	if action.Kind == GiveBack {
		m.GaveBack()
	} else {
		m.Renewed(value.(Lease), began)
	}
	return false
}

func (p *process) writesInFlight() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.inFlight {
		n += k
	}
	return n
}

// decide feeds the Machine from the watches and carries out its actions.
func (p *process) decide() {
	for {
		records, leases, wishes := p.watch(kindRecord), p.watch(kindLease), p.watch(kindWish)
		p.mu.Lock()
		m := p.machine
		p.feed(slices.Concat(leases, records, wishes))
		for shard := range m.shards {
			if m.shards[shard].draining && (p.inFlight[shard] == 0 || p.w.omit[ruleDrain]) {
				m.Drained(shard)
			}
		}
		for shard := range p.built {
			if s := &m.shards[shard]; s.held == 0 && s.warmth == cold {
				delete(p.built, shard)
			}
		}
		for _, a := range m.Decide(p.now()) {
			p.begin(m, a)
		}
		p.mu.Unlock()
		p.wait(resync/2 + p.random(resync))
	}
}

// feed records changes. The caller holds p.mu.
func (p *process) feed(changes []change) {
	for _, c := range changes {
		switch v := c.value.(type) {
		case Record:
			shard, err := strconv.Atoi(strings.TrimPrefix(c.key, kindRecord))
			version, _ := strconv.Atoi(v.Version)
			if err == nil && shard <= p.count && version > p.deleted[shard] { // Else it is the response to an earlier write.
				p.machine.SeeRecord(shard, v)
			}
		case Lease:
			p.machine.SeeLease(strings.TrimPrefix(c.key, kindLease), v, p.now())
		case wish:
			p.wished = v
			p.machine.SeeAssignment(v.names, v.drained)
		case nil:
			if name, isLease := strings.CutPrefix(c.key, kindLease); isLease {
				p.machine.SeeLease(name, Lease{}, p.now())
				p.machine.ForgetLease(name)
			}
			if number, isRecord := strings.CutPrefix(c.key, kindRecord); isRecord {
				shard, _ := strconv.Atoi(number)
				last, _ := c.before.(Record)
				if known, _ := strconv.Atoi(p.machine.shards[shard].record.Version); known < c.number {
					p.deleted[shard] = c.number
					p.machine.Deleted(shard, last)
				}
				if s := &p.machine.shards[shard]; s.held == 0 && p.machine.omit[ruleRecordsRemain] {
					s.record = Record{}
				}
			}
		}
	}
}

// begin carries out an action in the background, one at a time for each object. The caller holds p.mu.
func (p *process) begin(m *Machine, a Action) {
	key := kindRecord + strconv.Itoa(a.Shard)
	if a.Name != "" {
		key = kindLease + a.Name
	}
	if a.Kind == Drain || p.busy[key] {
		return // The next round of decide notes that the shard is drained.
	}
	busy := p.busy
	busy[key] = true
	p.spawn(func() {
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			busy[key] = false
		}()
		p.carryOut(m, a, key)
	})
}

func (p *process) carryOut(m *Machine, a Action, key string) {
	switch a.Kind {
	case WarmUp:
		p.wait(p.w.build/4 + p.random(p.w.build))
		p.mu.Lock()
		defer p.mu.Unlock()
		m.Warmed(a.Shard)
		p.built[a.Shard] = true
	case Cool:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.built[a.Shard] = false
	case Fence:
		version := a.Lease.Version
		if p.w.omit[ruleOverwriteCAS] {
			version = anyVersion
		}
		p.write(m, key, a.Lease, version)
	case Take:
		if a.Verify == "" || p.mayTake(m, a.Verify) {
			p.write(m, key, a.Record, a.Record.Version)
		}
	case Look:
		p.mayTake(m, a.Verify)
	case Announce, Release:
		p.write(m, key, a.Record, a.Record.Version)
	case Repair: // Of a record that is missing: nothing else damages one here.
		p.write(m, key, a.Record, "")
	default:
	}
}

func (p *process) mayTake(m *Machine, from string) bool {
	lease, err := p.call(func() (any, error) { return p.w.server.get(kindLease + from), nil })
	if err != nil {
		return false
	}
	l, _ := lease.(Lease)
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.MayTake(from, l, p.now())
}

// write writes an object and feeds the response. After a conflict it reads the object.
func (p *process) write(m *Machine, key string, value any, version string) {
	if strings.HasPrefix(key, kindRecord) && p.w.omit[ruleTakeCAS] {
		version = anyVersion
	}
	written, err := p.call(func() (any, error) { return p.w.server.write(key, value, version) })
	if errors.Is(err, errConflict) {
		written, err = p.call(func() (any, error) { return p.w.server.get(key), nil })
	}
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m == p.machine {
		p.feed([]change{{key: key, value: written}})
	}
}

// work writes to one Cluster as long as the gate permits it.
func (p *process) work(c cluster) {
	shard := c.shardOf(p.count)
	for {
		p.wait(150*time.Millisecond + p.random(150*time.Millisecond))
		p.mu.Lock()
		m := p.machine
		epoch, err := m.Gate(shard, p.now())
		if p.w.omit[ruleGate] && m.shards[shard].held != 0 { // It writes until it learns that it has lost the shard.
			epoch, err = m.shards[shard].held, nil
		}
		hung, built := time.Now().Before(p.hungUntil), p.built[shard]
		if err != nil || hung {
			p.mu.Unlock()
			continue
		}
		if !built {
			p.mu.Unlock()
			p.wait(p.w.build/4 + p.random(p.w.build))
			p.mu.Lock()
			if m == p.machine {
				p.built[shard] = true
			}
			p.mu.Unlock()
			continue
		}
		p.inFlight[shard]++
		freezes := p.freezes
		p.mu.Unlock()
		p.wait(p.random(p.w.hesitate)) // A freeze between the gate and the wire.
		p.mu.Lock()
		held := p.freezes != freezes
		p.mu.Unlock()
		x := write{cluster: c.uid, term: term{shard, epoch, m.me, p.id}}
		if held {
			x.late = late{p.id, freezes, c.uid}
		}
		p.send(x)
		p.mu.Lock()
		p.inFlight[shard]--
		p.mu.Unlock()
	}
}

// send sends a write to a remote and waits until it has a response or has timed out.
func (p *process) send(x write) {
	latency := time.Millisecond + p.random(20*time.Millisecond)
	if p.chance(0.2) {
		latency = p.random(writeLatency)
	}
	lost, unanswered := p.chance(p.w.loss()), p.chance(p.w.loss())
	done := make(chan struct{})
	p.w.running.Go(func() {
		<-time.After(latency)
		if !lost {
			p.w.arrive(x)
		}
		if !lost && !unanswered {
			close(done)
		}
	})
	select {
	case <-done:
	case <-time.After(writeTimeout):
	case <-p.dead:
	}
	p.point()
}

// forgetAfter is how long a Lease is unchanged before the assigner removes it. It is shorter than in a hub.
const forgetAfter = 20 * time.Second

// keepAssigned assigns if the assigner is not live, without a gate: several assigners at a time must do no harm.
func (p *process) keepAssigned() {
	for {
		p.wait(900*time.Millisecond + p.random(200*time.Millisecond))
		if p.hangs() {
			continue
		}
		p.mu.Lock()
		now, live := p.now(), p.machine.Live(p.now())
		before := p.wished
		mayAssign := p.machine.isFresh(now) && !p.machine.leaving && (before.assigner == p.machine.me || !slices.Contains(live, before.assigner))
		p.mu.Unlock()
		if mayAssign {
			p.assign()
			p.cleanUp()
		}
	}
}

func (p *process) assign() {
	p.mu.Lock()
	now := p.now()
	var candidates []Candidate
	for _, name := range p.machine.Assignable(now) {
		candidates = append(candidates, Candidate{Name: name})
	}
	before := p.wished
	next := wish{names: Assign(p.machine.Current(now), candidates, nil, p.active), assigner: p.machine.me, version: before.version}
	isSame := len(candidates) == 0 || before.assigner == next.assigner && slices.Equal(before.names, next.names)
	p.mu.Unlock()
	if isSame {
		return
	}
	written, err := p.call(func() (any, error) { return p.w.server.write(kindWish, next, next.version) })
	if errors.Is(err, errConflict) {
		written, err = p.call(func() (any, error) { return p.w.server.get(kindWish), nil })
	}
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feed([]change{{key: kindWish, value: written}})
}

// cleanUp removes Leases that were unchanged for long and that no record names, as far as this process knows.
func (p *process) cleanUp() {
	p.mu.Lock()
	now := p.now()
	old := map[string]string{}
	for name, s := range p.machine.others {
		isNamed := slices.ContainsFunc(p.machine.shards, func(s shard) bool { return s.record.Holder == name || s.record.Warm == name })
		if s.lease.Version != "" && !isNamed && now.Monotonic.Sub(s.since.Monotonic) >= forgetAfter {
			old[name] = s.lease.Version
		}
	}
	p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(old)) {
		version := old[name]
		_, _ = p.call(func() (any, error) {
			p.w.server.remove(kindLease+name, version)
			return Lease{}, nil
		})
	}
}
