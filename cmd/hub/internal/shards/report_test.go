// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"slices"
	"testing"
)

// The holder of a shard is live while it renews its Lease with the incarnation of the record.
func TestMachine_LiveHolder(t *testing.T) {
	t.Parallel()
	m := claimed()
	expect := func(seconds float64, want string) {
		t.Helper()
		if got := m.LiveHolder(0, at(seconds)); got != want {
			t.Errorf("after %g s: got %q, want %q", seconds, got, want)
		}
	}
	expect(0, "")
	m.SeeRecord(0, Record{Holder: self, Epoch: 1, Version: "1"})
	expect(1, self.Name)
	expect(8, "") // Its own renewal is too old.
	m.Renewed(Lease{Incarnation: self.Incarnation, Version: "2"}, at(10))
	m.SeeRecord(0, Record{Holder: other, Epoch: 2, Version: "2"})
	expect(10, "")
	m.SeeLease(other.Name, Lease{Incarnation: other.Incarnation, Version: "3"}, at(10))
	expect(10, other.Name)
	expect(20, "")
	m.SeeLease(other.Name, Lease{Incarnation: "another", Version: "4"}, at(20))
	expect(20, "")
}

// A Lease that was never seen is missing since the first question about it.
func TestMachine_LeaseOf(t *testing.T) {
	t.Parallel()
	m := claimed()
	for _, seconds := range []float64{1, 5} {
		if l, since := m.LeaseOf(other.Name, at(seconds)); l != (Lease{}) || since != at(1) {
			t.Errorf("got %+v since %v, want a missing Lease since the first question", l, since)
		}
	}
	seen := Lease{Incarnation: other.Incarnation, Version: "2"}
	m.SeeLease(other.Name, seen, at(6))
	if l, since := m.LeaseOf(other.Name, at(7)); l != seen || since != at(6) {
		t.Errorf("got %+v since %v, want the Lease since it was seen", l, since)
	}
}

// All replicas have the same order, whoever else there is, and each is the nearest of some shards.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	first := map[string]int{}
	for shard := range 128 {
		all := Neighbours(shard, []string{"a", "b", "c"})
		if again := Neighbours(shard, []string{"c", "a", "b"}); !slices.Equal(all, again) {
			t.Fatalf("shard %d: %v and %v", shard, all, again)
		}
		left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "b" })
		if two := Neighbours(shard, []string{"a", "c"}); !slices.Equal(left, two) {
			t.Fatalf("shard %d: %v without b, want %v", shard, two, left)
		}
		first[all[0]]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if first[name] < 20 {
			t.Errorf("%s is the nearest of %d shards of 128", name, first[name])
		}
	}
	if got := Neighbours(0, nil); len(got) != 0 {
		t.Errorf("got %v of none", got)
	}
}
