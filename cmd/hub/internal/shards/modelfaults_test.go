// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

type fault string

// The faults. Each has a duration of its own.
const (
	faultFreeze  fault = "freeze"  // SIGSTOP, and resume
	faultSuspend fault = "suspend" // as freeze, and the monotonic clock stands still
	faultKill    fault = "kill"    // kill -9, and a new process of the same name or of another
	faultTwin    fault = "twin"    // a second process of the same name
	faultCut     fault = "cut"     // no contact with the hub's API server; remotes respond
	faultStall   fault = "stall"   // a watch delivers nothing
	faultBlind   fault = "blind"   // the watch of the Leases delivers nothing for long
	faultHang    fault = "hang"    // the reconcilers stand still
	faultOutage  fault = "outage"  // the hub's API server is away
	faultLoss    fault = "loss"    // requests and responses are lost
	faultWish    fault = "wish"    // an arbitrary assignment is written
	faultLeave   fault = "leave"   // an orderly end, and a new process
	faultJoin    fault = "join"    // one process more
	faultTidy    fault = "tidy"    // Leases without an incarnation are deleted
	faultErase   fault = "erase"   // the Lease of a replica is deleted
	faultClear   fault = "clear"   // an administrator removes the holder from the Lease of a replica, or writes another one
	faultDelete  fault = "delete"  // a record is deleted
	faultDrain   fault = "drain"   // an administrator drains a replica, or ends that wish
	faultEmpty   fault = "empty"   // an administrator drains all replicas, and one of them dies
	faultLate    fault = "late"    // no contact for long, and a repeated create of the Lease arrives, perhaps after the clean-up
)

func (w *fleet) draw() {
	f := w.history.faults[w.pick(len(w.history.faults))]
	w.outcome.faults[f]++
	length := time.Second + w.random(25*time.Second)
	switch f {
	case faultOutage:
		w.set(func() { w.downUntil = time.Now().Add(length) })
	case faultLoss:
		w.set(func() { w.lossUntil = time.Now().Add(length) })
	case faultWish:
		names := make([]string, shardsOfModel+1)
		for i := range names {
			names[i] = w.anyName()
		}
		before, _ := w.server.get(kindWish).(wish)
		_, _ = w.server.write(kindWish, wish{names: names, assigner: before.assigner}, anyVersion)
	case faultTidy:
		objects := w.server.all()
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if l, isLease := objects[key].(Lease); isLease && !l.Held && strings.HasPrefix(key, kindLease) {
				w.server.remove(key, l.Version)
			}
		}
	case faultEmpty:
		running := w.alive()
		for _, p := range running {
			w.server.drain(p.name, true)
		}
		if len(running) > 1 {
			running[w.pick(len(running))].kill()
		}
	case faultDelete:
		key := kindRecord + strconv.Itoa(w.pick(shardsOfModel+1))
		w.server.remove(key, versionOf(w.server.get(key)))
	default:
		if running := w.alive(); len(running) > 0 {
			w.hit(running[w.pick(len(running))], f, length)
		}
	}
}

func (p *process) incarnation() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machine.me
}

func (w *fleet) anyName() string {
	all := w.all()
	return all[w.pick(len(all))].incarnation()
}

// hit lets a fault happen to one process.
func (w *fleet) hit(p *process, f fault, length time.Duration) {
	until := time.Now().Add(length)
	set := func(change func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		change()
	}
	switch f {
	case faultFreeze, faultSuspend:
		<-time.After(w.random(5 * time.Millisecond)) // anywhere between the steps of the process
		p.freeze(f == faultSuspend)
		w.running.Go(func() {
			<-time.After(length)
			p.thaw()
		})
	case faultKill:
		name := p.name
		if w.pick(2) == 0 {
			name = w.freshName()
		}
		p.kill()
		<-time.After(w.random(3 * time.Second))
		w.start(name, p.count)
	case faultTwin:
		w.start(p.name, p.count)
	case faultLeave:
		set(func() { p.machine.Leave(p.now().Monotonic.Add(10 * time.Second)) })
		w.start(w.freshName(), p.count)
	case faultErase:
		key := kindLease + p.incarnation()
		w.server.remove(key, versionOf(w.server.get(key)))
	case faultClear:
		w.overwrite(p.incarnation())
	case faultLate:
		until = time.Now().Add(30*time.Second + w.random(20*time.Second))
		behind := until.Add(w.random(6 * time.Second)) // The changes that it has missed arrive a little later.
		set(func() { p.cutUntil, p.stalled[kindRecord] = until, behind })
		key := kindLease + p.incarnation()
		early := w.random(8 * time.Second)
		w.running.Go(func() {
			<-time.After(time.Until(until) - early)
			_, _ = w.server.write(key, Lease{Held: true}, "")
		})
	case faultDrain:
		w.server.drain(p.name, w.pick(3) > 0 && (!w.spared || p != w.all()[0]))
	case faultJoin:
		w.start(w.freshName(), p.count)
	case faultCut:
		set(func() { p.cutUntil = until })
	case faultHang:
		set(func() { p.hungUntil = until })
	case faultBlind:
		set(func() { p.stalled[kindLease] = until.Add(30 * time.Second) })
	case faultStall:
		kind := []string{kindLease, kindRecord, kindWish}[w.pick(3)]
		set(func() { p.stalled[kind] = until })
	default:
	}
	if running := w.alive(); len(running) > 5 { // Histories stay small.
		running[w.pick(len(running))].kill()
	}
}

// overwrite changes the Lease of a replica as an administrator does: without a wait, and without a word on who has ended.
// Half of the time the Lease is deleted and created again.
func (w *fleet) overwrite(name string) {
	l, exists := w.server.get(kindLease + name).(Lease)
	if !exists {
		return
	}
	if w.pick(2) == 0 {
		w.server.remove(kindLease+name, l.Version)
		l = Lease{}
	}
	l.Held = false
	_, _ = w.server.write(kindLease+name, l, anyVersion)
}

func (w *fleet) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// endFaults ends all faults but the hang of reconcilers, which the replica itself has to deal with.
func (w *fleet) endFaults() {
	w.set(func() { w.downUntil, w.lossUntil, w.settling = time.Time{}, time.Time{}, time.Now() })
	for _, p := range w.all() {
		p.thaw()
		p.mu.Lock()
		p.cutUntil, p.stalled = time.Time{}, map[string]time.Time{}
		if time.Now().Before(p.hungUntil) {
			p.hungUntil = time.Now().Add(time.Hour)
		}
		p.mu.Unlock()
	}
	if len(w.alive()) == 0 || w.allHang() {
		w.start(w.freshName(), shardsOfModel)
	}
}

func (w *fleet) allHang() bool {
	for _, p := range w.alive() {
		p.mu.Lock()
		works := time.Now().After(p.hungUntil) && !p.machine.leaving
		p.mu.Unlock()
		if works {
			return false
		}
	}
	return true
}
