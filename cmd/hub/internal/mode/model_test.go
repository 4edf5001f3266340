// SPDX-License-Identifier: Apache-2.0

package mode

import (
	"fmt"
	"testing"
	"time"
)

// The model has two replicas, a hub that is a candidate in leader mode with a WayBack, and the Lease of leader mode, and tries
// all orders of their steps. The decisions are those of decide.go; the steps of an election are those of client-go. Each write is
// a compare-and-swap on the version that the process has read. A process may be killed at each step, and begins again.
//
// Time has two facts. A lock is unchanged for its duration only if its holder has closed its gate, and the same is true of the
// Lease of a replica: packages lease and shards ensure that. So whoever waits for the duration waits for the gate.

// situation is a state of the model. It is comparable.
type situation struct {
	lock     lock
	versions int // of the lock
	replicas [2]replica
	hub      hub
	deleted  bool // an administrator has deleted the lock, which had no finalizer
}

type replica struct {
	read   lock // by Run
	on     bool // it has a permit
	claims bool // its Lease has its incarnation
	works  bool // it has confirmed the mode after that
}

type hub struct {
	read    lock
	running bool // what it has found out about replicas, after read
	fresh   bool // it has found that out
	works   bool
}

const hubName, years, seconds = "hub", forever, 15 * time.Second

func (w situation) swap(read, next lock) (situation, bool) {
	if w.lock != read {
		return w, false
	}
	w.versions++
	next.exists, next.version = true, fmt.Sprint(w.versions)
	w.lock = next
	return w, true
}

func (w situation) next(d decider) []situation {
	var all []situation
	for i := range w.replicas {
		all = append(all, w.ofReplica(d, i)...)
	}
	all = append(all, w.ofHub(d)...)
	if w.hub.works && !w.deleted && w.lock.exists && !w.lock.guarded {
		w.deleted, w.lock = true, lock{}
		all = append(all, w)
	}
	return all
}

// expired reports whether the lock can be unchanged for its duration in the eyes of a replica.
func (w situation) expired(l lock) bool {
	if l.holder == hubName || !l.exists {
		return !w.hub.works
	}
	return l.duration < years || l.wayBack
}

func (w situation) ofReplica(d decider, i int) []situation {
	var all []situation
	change := func(f func(*situation, *replica)) {
		n := w
		f(&n, &n.replicas[i])
		all = append(all, n)
	}
	r := w.replicas[i]
	change(func(_ *situation, r *replica) { *r = replica{claims: r.claims} }) // Killed. Its Lease remains.
	change(func(n *situation, r *replica) { r.read = n.lock })
	unchanged := time.Duration(0)
	if w.lock == r.read && w.expired(r.read) {
		unchanged = forever
	}
	switch d.forReplicas(r.read, unchanged, r.on) {
	case stepWork:
		change(func(_ *situation, r *replica) { r.on = true })
	case stepAcquire:
		if n, ok := w.swap(r.read, lock{holder: d.me, duration: w.years(d), guarded: true}); ok {
			all = append(all, n)
		}
	default:
		change(func(_ *situation, r *replica) { *r = replica{read: r.read} }) // It has left, in good order.
	}
	if r.on && !r.claims {
		change(func(_ *situation, r *replica) { r.claims = true })
	}
	if r.on && r.claims && d.isShared(w.lock) {
		change(func(_ *situation, r *replica) { r.works = true })
	}
	return all
}

func (w situation) years(d decider) time.Duration {
	if d.omit[ruleYears] {
		return seconds
	}
	return years
}

func (w situation) ofHub(d decider) []situation {
	var all []situation
	change := func(f func(*situation, *hub)) {
		n := w
		f(&n, &n.hub)
		all = append(all, n)
	}
	change(func(_ *situation, h *hub) { *h = hub{} }) // Killed.
	h := w.hub
	if h.works {
		if w.lock.holder == d.me || w.lock.holder == "" && !w.deleted {
			change(func(_ *situation, h *hub) { *h = hub{} }) // The renewal finds another holder.
		}
		return all
	}
	change(func(n *situation, h *hub) { *h = hub{read: n.lock} })
	change(func(n *situation, h *hub) {
		h.fresh, h.running = true, false
		for j := range n.replicas {
			switch r := &n.replicas[j]; {
			case r.on && r.claims: // It renews its Lease.
				h.running = true
			case r.claims: // Killed, and so unchanged for the duration: its Lease is overwritten.
				r.claims = false
			}
		}
	})
	if h.fresh {
		switch d.forWayBack(h.read, h.running) {
		case stepAnnounce:
			next := h.read
			next.wayBack = true
			if n, ok := w.swap(h.read, next); ok {
				all = append(all, n)
			}
		case stepRelease:
			if n, ok := w.swap(h.read, lock{duration: time.Second}); ok {
				all = append(all, n)
			}
		}
	}
	// The election of client-go: an empty holder, a missing lock, or one that is unchanged for its duration.
	if w.lock == h.read && (h.read.holder == "" || h.read.duration < years && h.read.holder == d.me) {
		if n, ok := w.swap(h.read, lock{holder: hubName, duration: seconds}); ok {
			n.hub = hub{works: true}
			all = append(all, n)
		}
	}
	return all
}

func (w situation) isSafe() bool { return !w.hub.works || !w.replicas[0].works && !w.replicas[1].works }

// versionsAtMost limits the number of changes of the lock in a history.
func versionsAtMost() int {
	if testing.Short() {
		return 5
	}
	return 6
}

// explore tries all histories, and returns the number of situations, and an unsafe situation if there is one.
func explore(d decider) (situations int, unsafe *situation) {
	start := situation{lock: lock{exists: true, holder: hubName, duration: seconds, version: "0"}, hub: hub{works: true}}
	known, most := map[situation]bool{start: true}, versionsAtMost()
	for queue := []situation{start}; len(queue) > 0; queue = queue[1:] {
		for _, n := range queue[0].next(d) {
			if known[n] || n.versions > most {
				continue
			}
			if known[n] = true; !n.isSafe() {
				return len(known), &n
			}
			queue = append(queue, n)
		}
	}
	return len(known), nil
}

func modelDecider(omit ...rule) decider {
	d := decider{me: "ns/" + installation, duration: seconds, omit: rules{}}
	for _, r := range omit {
		d.omit[r] = true
	}
	return d
}

// In no order of the steps, with processes that are killed at each of them, do hubs of both modes work.
func TestModel_AllRules(t *testing.T) {
	t.Parallel()
	situations, unsafe := explore(modelDecider())
	if unsafe != nil {
		t.Errorf("hubs of both modes work: %+v", *unsafe)
	}
	if situations < 10_000 {
		t.Errorf("the model has %d situations, and finds nothing in so few", situations)
	}
	t.Logf("%d situations", situations)
}

// Without any of the rules, hubs of both modes work.
func TestModel_EachRuleIsNeeded(t *testing.T) {
	t.Parallel()
	for _, r := range []rule{ruleUnchanged, ruleMissing, ruleYears, ruleConfirm, ruleEnded, ruleAnnounce, ruleStop} {
		t.Run(string(r), func(t *testing.T) {
			t.Parallel()
			if situations, unsafe := explore(modelDecider(r)); unsafe == nil {
				t.Errorf("the model finds nothing in %d situations without it", situations)
			}
		})
	}
}
