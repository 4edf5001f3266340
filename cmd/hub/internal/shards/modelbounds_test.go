// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"testing"
	"time"
)

// worst runs histories and returns the worst outcomes of all of them.
func worst(t *testing.T, h history, n uint64) (result outcome) {
	t.Helper()
	for h.seed = range seeds(n) {
		o := run(t, h)
		if o.violation != "" {
			t.Errorf("seed %d: %s", h.seed, o.violation)
		}
		result.unserved = max(result.unserved, o.unserved)
		result.gap = max(result.gap, o.gap)
		result.moves = max(result.moves, o.moves)
		result.drained = max(result.drained, o.drained)
	}
	return result
}

// expectServedWith fails the test unless a fault leaves a Cluster without a writer for long without a rule, and not with it.
func expectServedWith(t *testing.T, r rule, f fault) {
	t.Helper()
	h := history{faults: []fault{f}, length: 50 * time.Second, between: 20 * time.Second, replicas: 3, calm: true, settle: true}
	with := worst(t, h, most(15))
	h.omit = rules{r: true}
	without := worst(t, h, most(15))
	if with.unserved > patience || without.unserved <= patience {
		t.Errorf("a Cluster has no writer for %s with the rule, and for %s without it", with.unserved, without.unserved)
	}
	t.Logf("with the rule %s, without it %s", with.unserved, without.unserved)
}

// A replica whose reconcilers stand still loses its shards, because it does not renew its Lease.
func TestModel_ProgressIsNeeded(t *testing.T) {
	t.Parallel()
	expectServedWith(t, ruleProgress, faultHang)
}

// No shard moves because the hub's API server was away, although all Leases were unchanged for longer than the duration.
func TestModel_ObserverContactIsNeeded(t *testing.T) {
	t.Parallel()
	h := history{faults: []fault{faultOutage}, length: 130 * time.Second, between: 60 * time.Second, replicas: 3, calm: true, settle: true}
	with := worst(t, h, most(15))
	h.omit = rules{ruleObserverContact: true}
	without := worst(t, h, most(15))
	if with.moves != 0 || without.moves == 0 {
		t.Errorf("%d shards move with the rule, %d without it", with.moves, without.moves)
	}
	t.Logf("with the rule %d moves, without it %d", with.moves, without.moves)
}

// A hand-over leaves a Cluster without a writer for less time than its app takes to be built, also when the assignment
// changes meanwhile.
func TestModel_WarmAndPromiseAreNeeded(t *testing.T) {
	t.Parallel()
	h := history{
		faults: []fault{faultWish}, length: 160 * time.Second, between: 40 * time.Second, replicas: 3,
		build: 20 * time.Second, calm: true, settle: true,
	}
	const limit = 6 * time.Second // It includes a write that is given up after 2.2 s.
	if with := worst(t, h, most(15)); with.gap > limit {
		t.Errorf("the longest time between two writes is %s", with.gap)
	} else {
		t.Logf("with the rules %s", with.gap)
	}
	for _, r := range []rule{ruleWarm, rulePromise} {
		h.omit = rules{r: true}
		if gap := exceeds(t, h, limit); gap <= limit {
			t.Errorf("without %s, the longest time between two writes is %s", r, gap)
		} else {
			t.Logf("without %s %s", r, gap)
		}
	}
}

// exceeds runs histories until the time between two writes exceeds a limit, and returns the longest one.
func exceeds(t *testing.T, h history, limit time.Duration) (gap time.Duration) {
	t.Helper()
	for h.seed = range seeds(400) {
		if gap = max(gap, run(t, h).gap); gap > limit {
			break
		}
	}
	return gap
}

// A crash, also of the assigner, leaves no Cluster without a writer for longer than 20 s, apart from the time that its app
// takes to be built.
func TestModel_Crash(t *testing.T) {
	t.Parallel()
	h := history{faults: []fault{faultKill}, length: 210 * time.Second, between: 120 * time.Second, replicas: 4, calm: true, settle: true}
	if o := worst(t, h, most(8)); o.gap > 20*time.Second+5*h.build/4 {
		t.Errorf("the longest time between two writes is %s", o.gap)
	} else {
		t.Logf("the longest time between two writes is %s", o.gap)
	}
}

// An administrator who changes or deletes the Lease of a replica leaves no Cluster without a writer for longer than a crash does.
func TestModel_Administrator(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{faultClear, faultErase} {
		h := history{faults: []fault{f}, length: 210 * time.Second, between: 120 * time.Second, replicas: 3, calm: true, settle: true}
		o := worst(t, h, most(8))
		if o.gap > 20*time.Second || o.moves == 0 {
			t.Errorf("%s: the longest time between two writes is %s, %d shards have moved", f, o.gap, o.moves)
		}
		t.Logf("%s: the longest time between two writes is %s", f, o.gap)
	}
}

// A replica that an administrator drains hands over its shards as in any other hand-over, and gets none. Of four replicas, a
// history drains three at most.
func TestModel_Drain(t *testing.T) {
	t.Parallel()
	h := history{
		faults: []fault{faultDrain}, length: 150 * time.Second, between: 40 * time.Second, replicas: 4,
		build: 20 * time.Second, calm: true, settle: true, spared: true,
	}
	const limit = 6 * time.Second // It includes a write that is given up after 2.2 s.
	o := worst(t, h, most(15))
	if o.gap > limit || o.moves == 0 {
		t.Errorf("the longest time between two writes is %s, and at most %d shards move", o.gap, o.moves)
	}
	if o.drained > 0 {
		t.Errorf("drained replicas have %d shards at the end", o.drained)
	}
	t.Logf("the longest time between two writes is %s, and at most %d shards move", o.gap, o.moves)
}

// If all live replicas are drained and one of them ends, the others take its shards.
func TestModel_AllDrainedIsNeeded(t *testing.T) {
	t.Parallel()
	expectServedWith(t, ruleAllDrained, faultEmpty)
}
