// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"slices"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// goneWithin is the bound for the removal of a dead remote.
const goneWithin = 30 * time.Second

// TestFigure_Deregister measures the time until the Cluster of a dead remote is removed, if its Secret is deleted at
// the same time and a module has a cleanup step: for remotes whose outage is known, and for remotes whose outage has
// just begun.
func TestFigure_Deregister(t *testing.T) {
	fleettest.Slow(t, "nothing: figures are measured on an idle machine")
	s := newStage(t, stageOptions{modules: newMisbehaviour().modules}, calm)
	s.startHub()
	of := func(name string) []*remote {
		return s.newCrowd(t, crowd{
			n: 10, name: name, on: []string{calm}, proxied: true, changes: []change{runs(stopwatchName, tidy)},
		})
	}
	refused, silent, justDied := of("refused"), of("silent"), of("died")
	expectAllReady(t, slices.Concat(refused, silent, justDied))
	setAll(refused, fault.Refuse())
	setAll(silent, fault.Blackhole())
	expectAll(refused, becomesUnready)
	expectAll(silent, becomesUnready)
	setAll(justDied[:5], fault.Refuse())
	setAll(justDied[5:], fault.Blackhole())
	all := slices.Concat(refused, silent, justDied)
	for _, r := range all {
		r.leave()
	}
	gone := func(what string, some []*remote) {
		t.Helper()
		took := expectAll(some, func(r *remote) time.Duration { return r.awaits("end", patience, isGone) })
		f := durations("deregistering a remote that "+what+", its Secret gone", goneWithin, took)
		f.goal, f.met = "<= "+goneWithin.String(), worst(took) <= goneWithin
		report(t, f)
	}
	gone("is known to be dead", slices.Concat(refused, silent))
	gone("has just died", justDied)
}
