// SPDX-License-Identifier: Apache-2.0

package shards

import "testing"

// A holder that is not in its Lease, which does not say that it has ended, is awaited for the duration after the first read
// of the Lease without it, or since the version of this read is known. No action is due meanwhile.
func TestMachine_Absence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read Lease
		end  float64
	}{
		"missing":       {Lease{}, 12},
		"changed":       {Lease{Version: "8"}, 11},
		"changed again": {Lease{Version: "9"}, 12},
	} {
		m := claimed()
		m.SeeLease(other, Lease{Held: true, Version: "7"}, at(0))
		m.SeeRecord(0, Record{Holder: other, Epoch: 4, Version: "1"})
		seen := c.read
		if seen.Version == "9" {
			seen.Version = "8"
		}
		m.SeeLease(other, seen, at(1))
		expectKind(t, next(t, m, 2), Take)
		if m.MayTake(other, c.read, at(2)) {
			t.Errorf("%s: the shard is taken at once", name)
		}
		expectKind(t, next(t, m, 3), WarmUp)
		for i := range 4 {
			m.Renewed(Lease{Held: true}, at(2.9*float64(i+1)))
		}
		if a := next(t, m, c.end-0.1); a.Kind != 0 || m.MayTake(other, c.read, at(c.end-0.1)) {
			t.Errorf("%s: %+v is due before the end of the wait", name, a)
		}
		expectKind(t, next(t, m, c.end), Take)
		if !m.MayTake(other, c.read, at(c.end)) {
			t.Errorf("%s: the shard is not taken after the wait", name)
		}
		m.SeeRecord(0, Record{Holder: self, Epoch: 5, Version: "2"})
		if len(m.absent) > 0 {
			t.Errorf("%s: the Machine remembers a holder that is in no record", name)
		}
	}
}

// What ends an absence: the incarnation is seen in its Lease, or the observation restarts.
func TestMachine_AbsenceRestarts(t *testing.T) {
	t.Parallel()
	there, gone := Lease{Held: true, Version: "9"}, Lease{Version: "8"}
	for name, c := range map[string]struct {
		change   func(*Machine)
		renewals []float64
		restarts bool
	}{
		"nothing":       {func(*Machine) {}, []float64{2, 4, 6, 8}, false},
		"seen":          {func(m *Machine) { m.SeeLease(other, there, at(5)) }, []float64{2, 4, 6, 8}, true},
		"read":          {func(m *Machine) { m.MayTake(other, there, at(5)) }, []float64{2, 4, 6, 8}, true},
		"contact again": {func(*Machine) {}, []float64{2, 6, 8}, true},
	} {
		m := claimed()
		m.MayTake(other, gone, at(0))
		c.change(m)
		for _, seconds := range c.renewals {
			m.Renewed(Lease{Held: true}, at(seconds))
		}
		if taken := m.MayTake(other, gone, at(10)); taken == c.restarts || !m.MayTake(other, gone, at(20)) {
			t.Errorf("%s: the shard is taken after 10 s: %t", name, taken)
		}
	}
}

// Each replica looks once at the Lease of a holder that is gone, so that the wait is over when the shard is assigned to it.
func TestMachine_Look(t *testing.T) {
	t.Parallel()
	m := claimed()
	m.SeeAssignment([]string{"hub-c"}, nil)
	m.SeeLease(other, Lease{Held: true, Version: "7"}, at(0))
	m.SeeRecord(0, Record{Holder: other, Epoch: 4, Version: "1"})
	expectKind(t, next(t, m, 1), 0)
	m.SeeLease(other, Lease{Version: "8"}, at(1))
	if look := next(t, m, 1); look.Kind != Look || look.Verify != other || look.Name != other {
		t.Errorf("got %+v, want a look at the Lease of %s", look, other)
	}
	m.MayTake(other, Lease{Version: "8"}, at(1))
	expectKind(t, next(t, m, 2), 0)
	m.SeeLease(other, Lease{Ended: true, Version: "9"}, at(2))
	m.restartObservation(at(3))
	expectKind(t, next(t, m, 3), 0)
}
