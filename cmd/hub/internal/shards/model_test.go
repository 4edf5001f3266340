// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"flag"
	"reflect"
	"testing"
	"time"
)

// allFaults has every fault that a protocol with all rules survives, the frequent ones more than once.
func allFaults() []fault {
	return []fault{
		faultFreeze, faultFreeze, faultSuspend, faultKill, faultKill, faultTwin, faultCut, faultCut, faultStall, faultStall,
		faultHang, faultOutage, faultLoss, faultWish, faultWish, faultLeave, faultJoin, faultTidy,
		faultErase, faultClear, faultClear, faultDrain, faultDrain, faultLate, faultDelete,
	}
}

var histories = flag.Uint64("histories", 30, "TestModel_AllRules: how many histories run; with -short a third")

// With all rules, no history has two writers of a Cluster, and after the faults every Cluster has a writer in time.
func TestModel_AllRules(t *testing.T) {
	t.Parallel()
	var late, writes, moves, reopened int
	faults := map[fault]int{}
	var worst time.Duration
	for seed := range seeds(most(*histories)) {
		active := [][]int{{0}, {1}, {2}, {0, 1, 1}}[seed%4] // also different settings, as in a rolling update
		o := run(t, history{seed: seed, faults: allFaults(), active: active, length: 100 * time.Second, replicas: 3, settle: true})
		if o.violation != "" {
			t.Errorf("seed %d: %s", seed, o.violation)
		}
		if o.unserved > patience {
			t.Errorf("seed %d: a Cluster has no writer for %s", seed, o.unserved)
		}
		late, writes, moves, worst = late+len(o.lates), writes+o.writes, moves+o.moves, max(worst, o.unserved)
		reopened += o.reopened
		for f, n := range o.faults {
			faults[f] += n
		}
	}
	t.Logf("%d writes, %d moves of shards, faults %v", writes, moves, faults)
	if reopened == 0 {
		t.Error("no replica renews its Lease after the deadline")
	}
	t.Logf("%d renewals after the deadline", reopened)
	t.Logf("%d writes had passed the gate before a freeze; longest time without a writer %s", late, worst)
}

// A process that is frozen between the gate and the wire sends one write after it resumes, and no more: the tolerated
// exception exists, and the gate stops the second write.
func TestModel_OneLateWrite(t *testing.T) {
	t.Parallel()
	late := 0
	for seed := range seeds(most(20)) {
		o := run(t, history{
			hesitate: 200 * time.Millisecond,
			seed:     seed, faults: []fault{faultFreeze}, length: 130 * time.Second, between: 20 * time.Second, replicas: 3,
		})
		if o.violation != "" {
			t.Errorf("seed %d: %s", seed, o.violation)
		}
		late += len(o.lates)
	}
	if late == 0 {
		t.Error("no history has a late write")
	}
	t.Logf("%d late writes", late)
}

// A history depends on its seed only, so that the seeds in the tests find what they are recorded for.
func TestModel_Repeats(t *testing.T) {
	t.Parallel()
	h := history{seed: 1, faults: allFaults(), length: 100 * time.Second, replicas: 3, settle: true}
	if first, second := run(t, h), run(t, h); !reflect.DeepEqual(first, second) {
		t.Errorf("two runs of one history differ: %+v, %+v", first, second)
	}
}

// most is how many of n histories run that must keep a promise: with -short a third.
func most(n uint64) uint64 {
	if testing.Short() {
		return n / 3
	}
	return n
}

func seeds(n uint64) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for seed := uint64(1); seed <= n; seed++ {
			if !yield(seed) {
				return
			}
		}
	}
}
