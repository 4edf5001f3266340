// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"iter"
	"testing"
	"time"
)

// needed is a rule, and the faults with which the model shows what happens without it.
type needed struct {
	rule    rule
	faults  []fault
	odd     bool
	between time.Duration // the longest time between two faults
	build   time.Duration
	seed    uint64 // known to find it, if the first seeds do not; see candidates
}

// safetyRules are the rules without which two writers meet or an epoch goes back.
func safetyRules() []needed {
	return []needed{
		{rule: ruleHoldIsRecord, faults: []fault{faultWish, faultStall}},
		{rule: ruleOneNumber, odd: true, seed: 17},
		{rule: ruleTakeCAS, faults: []fault{faultWish, faultStall, faultLoss}},
		{rule: ruleEpochGrows, faults: []fault{faultWish, faultKill}},
		{rule: ruleRecordsRemain, faults: []fault{faultDelete, faultWish, faultJoin}},
		{rule: ruleGate, faults: []fault{faultFreeze, faultCut}, seed: 16},
		{rule: ruleGateClock, faults: []fault{faultFreeze, faultCut}, seed: 4},
		{rule: ruleMargin, faults: []fault{faultWish, faultWish, faultCut}, between: 8 * time.Second, seed: 5},
		{rule: ruleFromBegin, faults: []fault{faultFreeze, faultLoss}, between: 12 * time.Second, seed: 43},
		{rule: ruleLongerClock, faults: []fault{faultSuspend}, between: 20 * time.Second},
		{rule: ruleWait, faults: []fault{faultWish, faultCut}},
		{rule: ruleOwnClock, faults: []fault{faultWish, faultCut}},
		{rule: ruleOverwrite, faults: []fault{faultFreeze, faultFreeze, faultStall}},
		{rule: ruleOverwriteCAS, faults: []fault{faultFreeze, faultStall, faultWish}, seed: 9},
		{rule: ruleRenewCAS, faults: []fault{faultFreeze, faultCut, faultTidy}, seed: 15},
		{rule: ruleNewIncarnation, faults: []fault{faultFreeze, faultStall, faultTidy}, seed: 20},
		{rule: ruleSameLease, faults: []fault{faultLate}, between: 12 * time.Second, seed: 137},
		{rule: ruleMissing, faults: []fault{faultErase, faultErase, faultWish}},
		{rule: ruleEndedSays, faults: []fault{faultClear, faultClear, faultWish}},
		{rule: ruleLiveRead, faults: []fault{faultWish, faultWish, faultBlind, faultJoin}, between: 6 * time.Second, build: 400 * time.Millisecond},
		{rule: ruleDrain, faults: []fault{faultWish}},
		{rule: ruleStaysReleased, faults: []fault{faultWish, faultWish, faultWish, faultStall}, between: 1500 * time.Millisecond, build: 200 * time.Millisecond},
	}
}

// Without a rule the model finds two writers, or an epoch that goes back; with the rule, the same history has neither.
func TestModel_EachSafetyRuleIsNeeded(t *testing.T) {
	t.Parallel()
	for _, n := range safetyRules() {
		t.Run(string(n.rule), func(t *testing.T) {
			t.Parallel()
			for seed := range n.candidates() {
				h := n.history(seed)
				o := run(t, h)
				if o.violation == "" {
					continue
				}
				t.Logf("seed %d (%d is recorded): %s", seed, n.seed, o.violation)
				h.omit = nil
				if o = run(t, h); o.violation != "" {
					t.Errorf("seed %d, with the rule: %s", seed, o.violation)
				}
				return
			}
			t.Error("the model does not find what happens without the rule")
		})
	}
}

// candidates are the seeds to try: with -short the recorded one first. If a change of the decisions or of
// the model makes the recorded seed useless, the test searches, and its log has a seed to record.
func (n needed) candidates() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if n.seed != 0 && testing.Short() && !yield(n.seed) {
			return
		}
		seeds(400)(yield)
	}
}

func (n needed) history(seed uint64) history {
	return history{
		seed: seed, omit: rules{n.rule: true}, faults: n.faults, odd: n.odd, between: n.between, build: n.build, length: 100 * time.Second, replicas: 3,
	}
}
