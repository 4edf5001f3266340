// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestFreshness(t *testing.T) {
	t.Parallel()
	var (
		none    cause
		broken  = cause{text: "broken", problem: state.Problem{Kind: state.ProblemResponseTooLarge}}
		refused = cause{text: "refused"}
		ended   = cause{text: causeEnded}
		silent  = cause{text: causeSilent}
	)
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		history func(f *freshness)
		look    int // seconds after began
		since   int // -1 for not blocked
		why     cause
	}{
		"nothing was asked yet": {func(*freshness) {}, 100, -1, none},
		"a list that never worked": {func(f *freshness) {
			f.listed(broken, at(1))
			f.listed(broken, at(9))
		}, 10, 1, broken},
		"a watch that stays": {func(f *freshness) {
			f.listed(none, at(0))
			f.watching("1", at(0))
		}, 1000, -1, none},
		"the end of a watch alone": {func(f *freshness) {
			f.watching("1", at(0))
			f.ended("1", at(300))
		}, 1000, -1, none},
		"failures after the end of a watch": {func(f *freshness) {
			f.watching("1", at(0))
			f.ended("1", at(300))
			f.refused(refused, at(301))
			f.listed(broken, at(302))
		}, 400, 300, broken},
		"a list that works while watches are refused": {func(f *freshness) {
			f.refused(refused, at(1))
			f.listed(none, at(2))
			f.refused(refused, at(30))
			f.listed(none, at(31))
		}, 40, 1, refused},
		"a watch that has not proven itself": {func(f *freshness) {
			f.listed(broken, at(1))
			f.listed(none, at(40))
			f.refused(refused, at(40))
			f.watching("1", at(41))
		}, 45, 1, refused},
		"a watch that has": {func(f *freshness) {
			f.listed(broken, at(1))
			f.watching("1", at(41))
		}, 46, -1, none},
		"watches that end at once": {func(f *freshness) {
			for second := range 20 {
				f.watching("1", at(second))
				f.ended("1", at(second))
			}
		}, 20, 0, ended},
		"short watches that move on": {func(f *freshness) {
			f.refused(refused, at(0))
			f.watching("1", at(10))
			f.ended("2", at(11))
		}, 50, -1, none},
		"a failure after a short watch that moved on": {func(f *freshness) {
			f.refused(refused, at(0))
			f.watching("1", at(10))
			f.ended("2", at(11))
			f.refused(refused, at(12))
		}, 50, 11, refused},
		"silent watches": {func(f *freshness) {
			f.watching("1", at(0))
			f.fellSilent(at(180))
			f.ended("1", at(180))
			f.watching("1", at(181))
		}, 300, 180, silent},
		"silent again": {func(f *freshness) {
			f.watching("1", at(0))
			f.received = true
			f.fellSilent(at(600))
			f.ended("1", at(600))
			f.watching("1", at(601))
			f.fellSilent(at(781))
			f.ended("1", at(781))
		}, 800, 600, silent},
		"silent no longer": {func(f *freshness) {
			f.watching("1", at(0))
			f.fellSilent(at(180))
			f.ended("1", at(180))
			f.watching("1", at(181))
			f.received = true
		}, 182, -1, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f freshness
			c.history(&f)
			since, why := f.blocked(at(c.look))
			want := time.Time{}
			if c.since >= 0 {
				want = at(c.since)
			}
			if !since.Equal(want) || why != c.why {
				t.Errorf("blocked since: got %v (%v), want %v (%v)", since, why, want, c.why)
			}
		})
	}
}

// The state changes only at the times that next returns, so a sleeper misses no change.
func TestFreshness_Next(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	limits := someOptions(t.Context(), nil, nil).Limits
	f := &freshness{}
	f.refused(cause{text: "refused"}, began)
	f.watching("1", began.Add(28*time.Second))
	times := func(from time.Duration) (all []time.Duration) {
		for at := f.next(began.Add(from), limits); !at.IsZero(); at = f.next(at, limits) {
			all = append(all, at.Sub(began))
		}
		return all
	}
	testkit.Equal(t, times(28*time.Second), []time.Duration{30 * time.Second, 33 * time.Second}, "with a watch that proves itself")
	f.ended("1", began.Add(29*time.Second))
	testkit.Equal(t, times(29*time.Second), []time.Duration{30 * time.Second, 150 * time.Second}, "without this watch")
}

func TestInformer_IsStale(t *testing.T) {
	t.Parallel()
	limits := someOptions(t.Context(), nil, nil).Limits
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := InformerStatus{Kind: "Widget.example.dev", Since: since, Cause: "Why."}
	for after, stale := range map[time.Duration]bool{
		29 * time.Second: false, 30 * time.Second: true, 149 * time.Second: true, 150 * time.Second: true, time.Hour: true,
	} {
		if one.isStale(since.Add(after), limits) != stale {
			t.Errorf("after %s: got stale %t", after, !stale)
		}
	}
	const message = "the cached objects of Widget.example.dev are stale: they cannot be listed and watched since 2026-01-01T00:00:00Z. Why."
	if one.Message() != message {
		t.Errorf("got message %q", one.Message())
	}
}
