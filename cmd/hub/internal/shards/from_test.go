// SPDX-License-Identifier: Apache-2.0

package shards

import "testing"

// The next holder of a shard learns whether the holder before has ended without a release, whatever that had promised.
func TestStage_After(t *testing.T) {
	t.Parallel()
	held := Record{Holder: other, Epoch: 4, Version: "1"}
	promised := Record{Holder: other, Epoch: 4, Warm: self, Promised: true, Version: "2"}
	free := Record{Epoch: 4, Version: "3"}
	ended, absent := Lease{Ended: true, Version: "8"}, Lease{Version: "9"}
	for name, tc := range map[string]struct {
		before []Record
		found  []Lease // by reads of the Lease of the holder, with the duration between them
		want   bool
	}{
		"the holder has ended":                      {[]Record{held}, []Lease{ended}, true},
		"it has ended after it promised the shard":  {[]Record{held, promised}, []Lease{ended}, true},
		"it is absent from its Lease":               {[]Record{held}, []Lease{absent, absent}, true},
		"it has released the shard to this replica": {[]Record{held, promised}, nil, false},
		"it has released the shard to none":         {[]Record{held, free}, nil, false},
		"there was no holder":                       {[]Record{{Version: "1"}}, nil, false},
	} {
		m := claimed()
		for _, r := range tc.before {
			m.SeeRecord(0, r)
		}
		seconds := 1.0
		for i, l := range tc.found {
			if may := m.MayTake(other, l, at(seconds)); may != (i == len(tc.found)-1) {
				t.Fatalf("%s: read %d permits to take the shard: %t", name, i, may)
			}
			seconds += 10
		}
		if m.Stage(0).After != "" {
			t.Errorf("%s: it says so before the shard is held", name)
		}
		m.SeeRecord(0, Record{Holder: self, Epoch: 5, Version: "5"})
		if got := m.Stage(0); got.Epoch != 5 || (got.After == other) != tc.want {
			t.Errorf("%s: got %+v, want %t", name, got, tc.want)
		}
	}
}

// A holder that has ended is forgotten with its last record: its name is never used again.
func TestMachine_ForgetsHoldersThatHaveEnded(t *testing.T) {
	t.Parallel()
	m := claimed()
	m.SeeRecord(0, Record{Holder: other, Epoch: 4, Version: "1"})
	m.SeeLease(other, Lease{Ended: true, Version: "8"}, at(1))
	m.MayTake(other, Lease{Ended: true, Version: "8"}, at(1))
	if m.ForgetLease(other); len(m.others) != 1 {
		t.Error("the Lease of a holder is forgotten")
	}
	m.SeeRecord(0, Record{Holder: self, Epoch: 5, Version: "2"})
	if m.ForgetLease(other); len(m.over)+len(m.others) != 0 {
		t.Errorf("got %v and %v, want none", m.over, m.others)
	}
}
