// SPDX-License-Identifier: Apache-2.0

package shards

import "testing"

// The next holder of a shard learns from which holder it has taken the shard: one that has ended without a release, whatever it
// had promised before, or one that has released the shard to none. A holder that has released it to this replica is none.
func TestStage_From(t *testing.T) {
	t.Parallel()
	held := Record{Holder: other, Epoch: 4, Version: "1"}
	promised := Record{Holder: other, Epoch: 4, Warm: self, Promised: true, Version: "2"}
	warm := Record{Holder: other, Epoch: 4, Warm: self, Version: "2"}
	free := Record{Epoch: 4, Released: other, Version: "3"}
	fromEnded := Origin{Holder: other, HasEnded: true}
	ended, absent := Lease{Ended: "b1", Version: "8"}, Lease{Incarnation: "b2", Ended: "b0", Version: "9"}
	for name, tc := range map[string]struct {
		before []Record
		found  []Lease // by reads of the Lease of the holder, with the duration between them
		want   Origin
	}{
		"the holder has ended":                           {before: []Record{held}, found: []Lease{ended}, want: fromEnded},
		"it has ended after it promised the shard":       {before: []Record{held, promised}, found: []Lease{ended}, want: fromEnded},
		"it is absent from its Lease":                    {before: []Record{held}, found: []Lease{absent, absent}, want: fromEnded},
		"it has released the shard to this replica":      {before: []Record{held, promised}},
		"it has done so without a promise, as it leaves": {before: []Record{held, warm}},
		"it has released the shard to none":              {before: []Record{held, free}, want: Origin{Holder: other}},
		"there was no holder":                            {before: []Record{{Version: "1"}}},
	} {
		m := claimed()
		for _, r := range tc.before {
			m.SeeRecord(0, r)
		}
		if got := m.Stage(0).From; got != (Origin{Holder: tc.before[len(tc.before)-1].Holder}) {
			t.Errorf("%s: without an epoch it is from %+v, want the holder", name, got)
		}
		seconds := 1.0
		for i, l := range tc.found {
			if may := m.MayTake(other, l, at(seconds)); may != (i == len(tc.found)-1) {
				t.Fatalf("%s: read %d permits to take the shard: %t", name, i, may)
			}
			seconds += 10
		}
		m.SeeRecord(0, Record{Holder: self, Epoch: 5, Version: "5"})
		if got := m.Stage(0); got.Epoch != 5 || got.From != tc.want {
			t.Errorf("%s: got %+v, want it from %+v", name, got, tc.want)
		}
	}
}

// A holder that has ended is forgotten with its last record: its incarnation is never used again.
func TestMachine_ForgetsHoldersThatHaveEnded(t *testing.T) {
	t.Parallel()
	m := claimed()
	m.SeeRecord(0, Record{Holder: other, Epoch: 4, Version: "1"})
	m.MayTake(other, Lease{Ended: "b1", Version: "8"}, at(1))
	m.SeeRecord(0, Record{Holder: self, Epoch: 5, Version: "2"})
	if len(m.over) != 0 {
		t.Errorf("got %v, want none", m.over)
	}
}
