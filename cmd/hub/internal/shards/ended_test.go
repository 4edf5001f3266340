// SPDX-License-Identifier: Apache-2.0

package shards

import "testing"

// A claim, a fence and a release say whom they have ended, and renewals repeat it.
func TestMachine_Ended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before Lease
		want   string
	}{
		"missing":                {Lease{}, ""},
		"released":               {Lease{Ended: "a0", Version: "1"}, "a0"},
		"of another incarnation": {Lease{Incarnation: "a1", Ended: "a0", Version: "1"}, "a1"},
	} {
		m := New(Holder{Name: self.Name, Incarnation: "a2"}, 1, timing())
		m.SeeOwn(c.before, at(0))
		claim, _ := m.DecideLease(at(10), true)
		if claim.Lease.Ended != c.want {
			t.Errorf("%s: the claim says that %q has ended, want %q", name, claim.Lease.Ended, c.want)
		}
		m.Renewed(claim.Lease, at(10))
		if renewal, _ := m.DecideLease(at(11), true); renewal.Lease.Ended != c.want {
			t.Errorf("%s: the renewal says that %q has ended, want %q", name, renewal.Lease.Ended, c.want)
		}
		m.Leave(at(11).Monotonic)
		if release, _ := m.DecideLease(at(11), true); release.Lease.Ended != "a2" || release.Lease.Incarnation != "" {
			t.Errorf("%s: the release writes %+v", name, release.Lease)
		}
	}
}

// A holder that is not in its Lease, which does not say that it has ended, is awaited for the duration after the first read
// of the Lease without it, or since the version of this read is known. No action is due meanwhile.
func TestMachine_Absence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read Lease
		end  float64
	}{
		"missing":         {Lease{}, 12},
		"cleared":         {Lease{Ended: "b0", Version: "8"}, 11},
		"overwritten":     {Lease{Incarnation: "administrator", Ended: "b0", Version: "8"}, 11},
		"renewed since":   {Lease{Incarnation: "b2", Ended: "b0", Version: "9"}, 12},
		"without history": {Lease{Incarnation: "b2", Version: "9"}, 12},
	} {
		m := claimed()
		m.SeeLease(other.Name, Lease{Incarnation: other.Incarnation, Version: "7"}, at(0))
		m.SeeRecord(0, Record{Holder: other, Epoch: 4, Version: "1"})
		seen := c.read
		if seen.Version == "9" {
			seen.Version = "8"
		}
		m.SeeLease(other.Name, seen, at(1))
		expectKind(t, next(t, m, 2), Take)
		if m.MayTake(other, c.read, at(2)) {
			t.Errorf("%s: the shard is taken at once", name)
		}
		expectKind(t, next(t, m, 3), WarmUp)
		for i := range 4 {
			m.Renewed(Lease{Incarnation: self.Incarnation}, at(2.9*float64(i+1)))
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
	there, gone := Lease{Incarnation: other.Incarnation, Version: "9"}, Lease{Version: "8"}
	for name, c := range map[string]struct {
		change   func(*Machine)
		renewals []float64
		restarts bool
	}{
		"nothing":       {func(*Machine) {}, []float64{2, 4, 6, 8}, false},
		"seen":          {func(m *Machine) { m.SeeLease(other.Name, there, at(5)) }, []float64{2, 4, 6, 8}, true},
		"read":          {func(m *Machine) { m.MayTake(other, there, at(5)) }, []float64{2, 4, 6, 8}, true},
		"contact again": {func(*Machine) {}, []float64{2, 6, 8}, true},
	} {
		m := claimed()
		m.MayTake(other, gone, at(0))
		c.change(m)
		for _, seconds := range c.renewals {
			m.Renewed(Lease{Incarnation: self.Incarnation}, at(seconds))
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
	m.SeeAssignment([]string{"hub-c"})
	m.SeeLease(other.Name, Lease{Incarnation: other.Incarnation, Version: "7"}, at(0))
	m.SeeRecord(0, Record{Holder: other, Epoch: 4, Version: "1"})
	expectKind(t, next(t, m, 1), 0)
	m.SeeLease(other.Name, Lease{Version: "8"}, at(1))
	if look := next(t, m, 1); look.Kind != Look || look.Verify != other || look.Name != other.Name {
		t.Errorf("got %+v, want a look at the Lease of %s", look, other.Name)
	}
	m.MayTake(other, Lease{Version: "8"}, at(1))
	expectKind(t, next(t, m, 2), 0)
	m.SeeLease(other.Name, Lease{Ended: other.Incarnation, Version: "9"}, at(2))
	m.restartObservation(at(3))
	expectKind(t, next(t, m, 3), 0)
}

// The wait for an earlier incarnation of the own name begins with a read of the own Lease, before the claim. It begins when
// the record was known before the read.
func TestMachine_OwnName(t *testing.T) {
	t.Parallel()
	earlier := Holder{Name: self.Name, Incarnation: "a0"}
	for name, c := range map[string]struct {
		before  Lease
		claimed float64
		end     float64
	}{
		"missing":         {Lease{}, 10, 13},
		"overwritten":     {Lease{Incarnation: "administrator", Version: "1"}, 10, 13},
		"cleared":         {Lease{Version: "1"}, 4, 13},
		"ended and taken": {Lease{Ended: "a0", Version: "1"}, 4, 4},
	} {
		m := New(self, 1, timing())
		m.SeeAssignment([]string{self.Name})
		m.SeeOwn(c.before, at(0))
		m.SeeRecord(0, Record{Holder: earlier, Epoch: 1, Version: "1"})
		m.SeeOwn(c.before, at(1.5)) // This read may have begun before the record was read.
		m.SeeOwn(c.before, at(3))
		claim, due := m.DecideLease(at(c.claimed), true)
		if !due {
			t.Errorf("%s: no claim after %f s", name, c.claimed)
		}
		written := claim.Lease
		written.Version = "2"
		m.Renewed(written, at(c.claimed))
		if c.end > c.claimed {
			expectKind(t, next(t, m, c.claimed), WarmUp)
			if m.MayTake(earlier, written, at(c.end-0.1)) {
				t.Errorf("%s: the shard is taken before the end of the wait", name)
			}
		}
		if !m.MayTake(earlier, written, at(c.end)) {
			t.Errorf("%s: the shard is not taken after %f s", name, c.end)
		}
		if m.MayTake(self, written, at(60)) || m.MayTake(earlier, Lease{Incarnation: "a0", Version: "3"}, at(60)) {
			t.Errorf("%s: a shard is taken from a holder that has its Lease", name)
		}
	}
}
