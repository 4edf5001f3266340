// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"slices"
	"testing"
	"time"
)

var (
	self  = Incarnation("hub-a", "a1")
	other = Incarnation("hub-b", "b1")
)

// at is a moment by two clocks that agree.
func at(seconds float64) Instant {
	moment := time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	return Instant{Monotonic: moment, Wall: moment}
}

// claimed returns a Machine with one shard that has renewed its Lease at 0.
func claimed() *Machine {
	m := New(self, 0, timing())
	m.Renewed(Lease{Held: true, Version: "1"}, at(0))
	m.SeeAssignment([]string{self}, nil)
	return m
}

// next returns the kind of the only action that is due, or zero.
func next(t *testing.T, m *Machine, seconds float64) Action {
	t.Helper()
	actions := m.Decide(at(seconds))
	if len(actions) > 1 {
		t.Fatalf("several actions for one shard: %+v", actions)
	}
	if len(actions) == 0 {
		return Action{}
	}
	return actions[0]
}

func expectKind(t *testing.T, got Action, want ActionKind) {
	t.Helper()
	if got.Kind != want {
		t.Fatalf("got action %d, want %d: %+v", got.Kind, want, got)
	}
}

func isOpen(m *Machine, seconds float64) bool {
	_, err := m.Gate(0, at(seconds))
	return err == nil
}

// A claim creates the Lease at once. A create without a response is repeated; if the Lease exists then, it is the own one, and the
// gate counts from the next renewal.
func TestMachine_Claim(t *testing.T) {
	t.Parallel()
	m := New(self, 0, timing())
	m.SeeAssignment([]string{self}, nil)
	m.SeeRecord(0, Record{Holder: self, Epoch: 1, Version: "1"})
	if _, due := m.DecideLease(at(0), false); due {
		t.Error("it claims a Lease without progress")
	}
	if a, due := m.DecideLease(at(0), true); !due || a.Kind != Renew || !a.Lease.Held || a.Lease.Version != "" {
		t.Errorf("the first step is %+v, want a create", a)
	}
	m.SeeOwn(Lease{}, at(1))
	if a, due := m.DecideLease(at(2), true); !due || a.Lease.Version != "" {
		t.Errorf("after a create that is lost: %+v, want another one", a)
	}
	m.SeeOwn(Lease{UID: "u", Held: true, Version: "7"}, at(3))
	if isOpen(m, 3) {
		t.Error("the gate is open before the first response to a write")
	}
	if a, due := m.DecideLease(at(4), true); !due || a.Lease.Version != "7" {
		t.Errorf("after a create without a response: %+v, want a renewal", a)
	}
	m.Renewed(Lease{UID: "u", Held: true, Version: "8"}, at(4))
	if !isOpen(m, 5) || isOpen(m, 12) {
		t.Error("the gate does not count from the renewal")
	}
}

// What ends an incarnation: its Lease has no holder, is missing after the claim, or is another object of that name.
func TestMachine_LosesItsLease(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Lease{
		"ended": {UID: "u", Ended: true, Version: "3"}, "changed": {UID: "u", Version: "3"}, "missing": {},
		"created again": {UID: "v", Held: true, Version: "3"},
	} {
		m := New(self, 0, timing())
		m.Renewed(Lease{UID: "u", Held: true, Version: "2"}, at(0))
		m.SeeRecord(0, Record{Holder: self, Epoch: 1, Version: "1"})
		if m.SeeOwn(l, at(1)); !m.Lost() || isOpen(m, 1) {
			t.Errorf("%s: the incarnation continues", name)
		}
		m.Renewed(Lease{UID: "u", Held: true, Version: "4"}, at(1)) // Both were under way.
		m.SeeRecord(0, Record{Holder: self, Epoch: 2, Version: "2"})
		if isOpen(m, 1) {
			t.Errorf("%s: the gate opens again", name)
		}
	}
	m := New(self, 0, timing())
	if m.SeeOwn(Lease{UID: "u", Ended: true, Version: "3"}, at(0)); !m.Lost() {
		t.Error("it claims a Lease of its name that has ended")
	}
}

// While the release of the Lease is on its way, a shard that is handed to this replica does not open its gate.
func TestMachine_ReleaseClosesTheGate(t *testing.T) {
	t.Parallel()
	m := claimed()
	m.SeeRecord(0, Record{Holder: other, Epoch: 1, Warm: self, Promised: true, Version: "1"})
	m.Leave(at(1).Monotonic)
	if a, _ := m.DecideLease(at(1), true); a.Kind != GiveBack {
		t.Fatalf("a replica without shards does not give its Lease back: %+v", a)
	}
	m.SeeRecord(0, Record{Holder: self, Epoch: 2, Version: "2"})
	if isOpen(m, 1) {
		t.Error("the gate is open, and the Lease may be released already")
	}
	if a, due := m.DecideLease(at(2), true); !due || a.Kind != Renew {
		t.Errorf("a replica whose release has failed, and that holds a shard, does not renew: %+v", a)
	}
	expectKind(t, next(t, m, 2), Drain)
}

func TestMachine_Gate(t *testing.T) {
	t.Parallel()
	m := claimed()
	if isOpen(m, 0) {
		t.Error("the gate is open without a record")
	}
	m.SeeRecord(0, Record{Version: "1"})
	take := next(t, m, 0)
	expectKind(t, take, Take)
	m.SeeRecord(0, take.Record)
	if epoch, err := m.Gate(0, at(7)); err != nil || epoch != 1 {
		t.Errorf("after 7 s: epoch %d, %v", epoch, err)
	}
	if isOpen(m, 7.1) {
		t.Error("the gate is open after the deadline")
	}
	suspended := Instant{Monotonic: at(1).Monotonic, Wall: at(8).Wall}
	if _, err := m.Gate(0, suspended); err == nil {
		t.Error("the gate is open after the machine was suspended")
	}
	m.Renewed(Lease{Held: true, Version: "2"}, at(8))
	if !isOpen(m, 9) {
		t.Error("a late renewal does not open the gate")
	}
	m.SeeOwn(Lease{Version: "3"}, at(9))
	m.Renewed(Lease{Held: true, Version: "4"}, at(9))
	if isOpen(m, 9) || !m.Lost() {
		t.Error("the gate is open after the Lease was overwritten")
	}
}

func TestMachine_OldRecords(t *testing.T) {
	t.Parallel()
	m := claimed()
	mine := Record{Holder: self, Epoch: 3, Version: "3"}
	m.SeeRecord(0, mine)
	m.SeeRecord(0, Record{Holder: other, Epoch: 2, Version: "2"})
	if !isOpen(m, 1) {
		t.Error("an older record takes the shard")
	}
	m.SeeAssignment([]string{other}, nil)
	m.Leave(at(1).Monotonic)
	expectKind(t, next(t, m, 1), Drain)
	if isOpen(m, 1) {
		t.Error("the gate is open during the drain")
	}
	m.Drained(0)
	release := next(t, m, 1)
	expectKind(t, release, Release)
	m.SeeRecord(0, mine)
	if isOpen(m, 1) {
		t.Error("the record of a released epoch opens the gate")
	}
	m.SeeRecord(0, release.Record)
	m.SeeRecord(0, mine)
	if isOpen(m, 1) || !m.isDone() {
		t.Error("an old record undoes the release")
	}
	if a, due := m.DecideLease(at(1), true); !due || a.Kind != GiveBack {
		t.Errorf("a replica without shards does not give its Lease back: %+v", a)
	}
}

// A shard of a live replica is handed over in these steps, seen from both sides.
func TestMachine_HandOver(t *testing.T) {
	t.Parallel()
	from, to := claimed(), New(other, 0, timing())
	to.Renewed(Lease{Held: true, Version: "2"}, at(0))
	both := []*Machine{from, to}
	write := func(r Record) {
		for _, m := range both {
			m.SeeRecord(0, r)
		}
	}
	from.SeeLease(other, Lease{Held: true, Version: "2"}, at(0))
	to.SeeLease(self, Lease{Held: true, Version: "1"}, at(0))
	write(Record{Holder: self, Epoch: 1, Version: "1"})
	for _, m := range both {
		m.SeeAssignment([]string{other}, nil)
	}
	expectKind(t, next(t, from, 1), 0)
	expectKind(t, next(t, to, 1), WarmUp)
	expectKind(t, next(t, to, 1), 0)
	to.Warmed(0)
	announce := next(t, to, 2)
	expectKind(t, announce, Announce)
	write(announce.Record)
	promise := next(t, from, 2)
	expectKind(t, promise, Announce)
	write(promise.Record)
	to.SeeAssignment([]string{self}, nil)
	expectKind(t, next(t, to, 2), 0) // It keeps what it has announced.
	expectKind(t, next(t, from, 2), Drain)
	expectKind(t, next(t, from, 2), 0)
	from.Drained(0)
	release := next(t, from, 3)
	expectKind(t, release, Release)
	write(release.Record)
	if isOpen(from, 3) || !isOpen(to, 3) {
		t.Error("the gates do not follow the record")
	}
}

// A drained shard goes to the warm replica only while that incarnation of it is live, and otherwise to none.
func TestMachine_ReleaseToTheLive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lease Lease // of the warm replica, seen after the drain; zero for no change
		after float64
		heir  string
	}{
		"live":                  {Lease{}, 3, other},
		"unchanged for 10 s":    {Lease{}, 13, ""},
		"ended":                 {Lease{Ended: true, Version: "8"}, 3, ""},
		"without its holder":    {Lease{Version: "8"}, 3, ""},
		"live, after a renewal": {Lease{Held: true, Version: "8"}, 11, other},
	} {
		m := claimed()
		m.SeeLease(other, Lease{Held: true, Version: "7"}, at(0))
		m.SeeRecord(0, Record{Holder: self, Epoch: 1, Warm: other, Promised: true, Version: "1"})
		m.SeeAssignment([]string{other}, nil)
		expectKind(t, next(t, m, 1), Drain)
		m.Drained(0)
		for i := range 6 {
			m.Renewed(Lease{Held: true}, at(2*float64(i+1)))
		}
		if tc.lease.Version != "" {
			m.SeeLease(other, tc.lease, at(2))
		}
		release := next(t, m, tc.after)
		expectKind(t, release, Release)
		isToNone := release.Record.Holder == "" && release.Record.Epoch == 1
		if release.Record.Holder != tc.heir || isToNone != (tc.heir == "") {
			t.Errorf("the Lease of the warm replica is %s: got %+v, want the holder %+v", name, release.Record, tc.heir)
		}
	}
}

func TestMachine_Fence(t *testing.T) {
	t.Parallel()
	m := claimed()
	lease := Lease{Held: true, Version: "7"}
	m.SeeLease(other, lease, at(0))
	m.SeeRecord(0, Record{Holder: other, Epoch: 4, Version: "1"})
	expectKind(t, next(t, m, 1), WarmUp)
	for i := range 5 {
		m.Renewed(Lease{Held: true}, at(2*float64(i+1)))
	}
	expectKind(t, next(t, m, 9.9), 0)
	fence := next(t, m, 10)
	if expectKind(t, fence, Fence); fence.Lease.Version != "7" || fence.Lease.Held || !fence.Lease.Ended {
		t.Errorf("fence writes %+v", fence.Lease)
	}
	ended := Lease{Ended: true, Version: "8"}
	m.SeeLease(other, ended, at(10))
	take := next(t, m, 10)
	if expectKind(t, take, Take); take.Verify != other || take.Record.Epoch != 5 {
		t.Errorf("take writes %+v", take)
	}
	if m.MayTake(other, lease, at(10)) || !m.MayTake(other, ended, at(10)) {
		t.Error("the Lease of the holder does not decide whether the shard is taken")
	}
}

func TestMachine_Live(t *testing.T) {
	t.Parallel()
	m := claimed()
	m.SeeLease(other, Lease{Held: true, Version: "1"}, at(0))
	m.SeeLease("hub-c", Lease{Held: true, Leaving: true, Version: "2"}, at(0))
	m.SeeLease("hub-d", Lease{Version: "3"}, at(0))
	if live := m.Live(at(5)); !slices.Equal(live, []string{self, other}) {
		t.Errorf("live: %q", live)
	}
	m.Renewed(Lease{Held: true}, at(2))
	m.Renewed(Lease{Held: true}, at(4))
	if live := m.Live(at(10)); !slices.Equal(live, []string{self}) {
		t.Errorf("live after 10 s: %q", live)
	}
	m.SeeRecord(0, Record{Holder: other, Epoch: 1, Version: "1"})
	m.SeeAssignment([]string{"gone"}, nil)
	if current := m.Current(at(5)); !slices.Equal(current, []string{other}) {
		t.Errorf("current: %q", current)
	}
}

// Drained replicas get no shards, unless all live replicas are drained.
func TestMachine_Assignable(t *testing.T) {
	t.Parallel()
	m := claimed()
	drained := func(pods ...string) map[string]bool {
		set := map[string]bool{}
		for _, pod := range pods {
			set[pod] = true
		}
		return set
	}
	m.SeeLease(other, Lease{Held: true, Version: "1"}, at(0))
	m.SeeAssignment([]string{other}, drained("hub-b"))
	m.SeeRecord(0, Record{Holder: self, Epoch: 1, Version: "2"})
	if got := m.Assignable(at(5)); !slices.Equal(got, []string{self}) {
		t.Errorf("another replica is drained: got %q", got)
	}
	if got := m.Current(at(5)); !slices.Equal(got, []string{self}) {
		t.Errorf("a shard on its way to a drained replica is with %q, want the holder", got)
	}
	m.SeeAssignment([]string{other}, drained("hub-a", "hub-b"))
	if got := m.Assignable(at(5)); !slices.Equal(got, []string{self, other}) {
		t.Errorf("all replicas are drained: got %q", got)
	}
	m.SeeAssignment([]string{other}, drained("hub-a"))
	if got := m.Assignable(at(5)); !slices.Equal(got, []string{other}) {
		t.Errorf("this replica is drained: got %q", got)
	}
	if live := m.Live(at(5)); !slices.Equal(live, []string{self, other}) {
		t.Errorf("got the live replicas %q", live)
	}
	if _, err := m.Gate(0, at(5)); err != nil {
		t.Errorf("the wish closes the gate: %v", err)
	}
	if a, due := m.DecideLease(at(5), true); !due || a.Kind != Renew {
		t.Errorf("a drained replica does not renew: %t %+v", due, a)
	}
}

// Only the holder of a shard writes a damaged record again, while its Lease is fresh, also one that it drains.
func TestMachine_Repair(t *testing.T) {
	t.Parallel()
	m := claimed()
	held := Record{Holder: self, Epoch: 3, Version: "1"}
	m.SeeRecord(0, held)
	m.Damaged(0)
	if a := next(t, m, 1); a.Kind != Repair || a.Record != held {
		t.Errorf("got %+v, want a repair with the record", a)
	}
	if actions := m.Decide(at(8)); len(actions) > 0 {
		t.Errorf("a replica without a fresh Lease does %+v", actions)
	}
	held.Version = "2"
	m.SeeRecord(0, held)
	if actions := m.Decide(at(1)); len(actions) > 0 {
		t.Errorf("after the repair: %+v", actions)
	}
	m.Leave(at(0).Monotonic)
	expectKind(t, next(t, m, 1), Drain)
	m.Damaged(0)
	expectKind(t, next(t, m, 1), Repair)
	other := claimed()
	other.SeeRecord(0, Record{Holder: Incarnation("hub-b", "b1"), Epoch: 3, Version: "1"})
	other.Damaged(0)
	for _, a := range other.Decide(at(1)) {
		if a.Kind == Repair {
			t.Errorf("a replica that does not hold the shard does %+v", a)
		}
	}
}
