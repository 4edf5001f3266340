// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterfx/clusterfx/registry/state"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	crashed := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	before, other := Attempt{UID: "u", Spec: "1", Secret: "s"}, Attempt{UID: "u", Spec: "1", Secret: "t"}
	t.Run("what was being started is suspected, and nothing else", func(t *testing.T) {
		t.Parallel()
		last := records{}
		for _, name := range []string{"culprit", "ended", "again"} {
			last.begin(name, before)
		}
		last.end("ended")
		last["again"] = entry{Starting: &before, Crashes: 1, Crashed: crashed.Add(-time.Hour)}
		last["known"] = entry{Crashes: 2, Crashed: crashed.Add(-time.Hour), Tried: before}
		last["old"] = entry{Crashes: 2, Crashed: crashed.Add(-forgetAfter - time.Second), Tried: before}
		now := records{}
		now.begin("again", other)
		now.inherit(last, crashed)
		want := records{
			"culprit": {Crashes: 1, Crashed: crashed, Tried: before},
			"again":   {Crashes: 2, Crashed: crashed, Tried: before, Starting: &other},
			"known":   last["known"],
		}
		if diff := cmp.Diff(want, now); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("of two records of one Cluster the one with more crashes counts", func(t *testing.T) {
		t.Parallel()
		l := records{
			"fewer": {Crashes: 1, Crashed: crashed, Tried: before}, "more": {Crashes: 2, Crashed: crashed, Tried: before},
			"recreated": {Crashes: 2, Crashed: crashed, Tried: Attempt{UID: "v"}},
		}
		for name := range l {
			l.adopt(name, entry{Starting: &before, Crashes: 1}, crashed.Add(time.Minute))
		}
		want := entry{Crashes: 2, Crashed: crashed.Add(time.Minute), Tried: before}
		if l["fewer"] != want || l["recreated"] != want || l["more"].Crashed != crashed {
			t.Errorf("got %+v", l)
		}
	})
	t.Run("the end of a start says nothing about crashes before", func(t *testing.T) {
		t.Parallel()
		l := records{"a": {Crashes: 2, Crashed: crashed, Tried: before}}
		l.begin("a", before)
		if !l.end("a") || l.end("a") || l["a"].Crashes != 2 {
			t.Errorf("got %+v, want one end and 2 crashes", l)
		}
		if !l.acquit("a") || l.acquit("a") || len(l) != 0 {
			t.Errorf("got %+v, want one acquittal and no entry", l)
		}
	})
	t.Run("the quarantine doubles", func(t *testing.T) {
		t.Parallel()
		for crashes, want := range map[int]time.Duration{
			0: 0, 1: 0, 2: 0, 3: 10 * time.Minute, 4: 20 * time.Minute, 10: 1280 * time.Minute, 11: 24 * time.Hour, 1000: 24 * time.Hour,
		} {
			if got := quarantine(crashes); got != want {
				t.Errorf("%d crashes: got %s, want %s", crashes, got, want)
			}
		}
	})
	for name, tc := range map[string]struct {
		crashes int
		now     Attempt
		until   time.Duration // after the crash; zero means no quarantine
	}{
		"two crashes are not enough":                  {2, before, 0},
		"three are":                                   {3, before, 10 * time.Minute},
		"four are worse":                              {4, before, 20 * time.Minute},
		"another spec is tried":                       {3, Attempt{UID: "u", Spec: "2", Secret: "s"}, 0},
		"another spec is tried, always":               {7, Attempt{UID: "u", Spec: "2", Secret: "s"}, 0},
		"another Secret is tried":                     {3, other, 0},
		"another Secret is tried, but not constantly": {7, other, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := entry{Crashes: tc.crashes, Crashed: crashed, Tried: before}
			want := state.CrashRecord{Crashes: tc.crashes}
			if tc.until != 0 {
				want.Until = crashed.Add(tc.until)
			}
			if got := e.suspicion(tc.now); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if got := (entry{Starting: &before}).suspicion(before); got != (state.CrashRecord{}) {
		t.Errorf("an app that starts is suspected: %+v", got)
	}
	if one, two := Digest("a", "b"), Digest("ab", ""); one == two || len(one) != 16 {
		t.Errorf("got digests %s and %s, want different digests of 16 characters", one, two)
	}
}
