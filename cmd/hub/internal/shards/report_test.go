// SPDX-License-Identifier: Apache-2.0

package shards

import "testing"

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
	expect(1, self)
	expect(8, "") // Its own renewal is too old.
	m.Renewed(Lease{Held: true, Version: "2"}, at(10))
	m.SeeRecord(0, Record{Holder: other, Epoch: 2, Version: "2"})
	expect(10, "")
	m.SeeLease(other, Lease{Held: true, Version: "3"}, at(10))
	expect(10, other)
	expect(20, "")
	m.SeeLease(other, Lease{Version: "4"}, at(20))
	expect(20, "")
}
