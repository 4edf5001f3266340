// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A pulse that beats in time reports no starvation.
func TestPulse_Beats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := NewPulse(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		<-time.After(time.Minute)
		if p.StarvedSince(began) || p.Starved() != 0 {
			t.Error("idle hub is starved")
		}
		cancel()
	})
}

// Starvation counts from the last beat, also before the next beat; earlier starvation is no excuse for later work.
func TestPulse_Starved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPulse()
		p.beat(time.Now())
		frozen := time.Now()
		<-time.After(time.Minute)
		if !p.StarvedSince(frozen) || p.Starved() != time.Minute-beatEvery {
			t.Errorf("before the next beat: got starved %s", p.Starved())
		}
		p.beat(time.Now())
		resumed := time.Now()
		<-time.After(beatEvery)
		if !p.StarvedSince(frozen) || p.Starved() != time.Minute-beatEvery {
			t.Errorf("after the next beat: got starved %s", p.Starved())
		}
		if p.StarvedSince(resumed.Add(1)) {
			t.Error("late beat excuses work that began after it")
		}
	})
}

// A beat that is late by frozenFor is an excuse, before and after the beat.
func TestPulse_FrozenFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPulse()
		p.beat(time.Now())
		began := time.Now()
		if <-time.After(beatEvery + frozenFor); !p.StarvedSince(began) {
			t.Error("no excuse before the beat")
		}
		if p.beat(time.Now()); !p.StarvedSince(began) {
			t.Error("no excuse after the beat")
		}
	})
}

// Many slightly late beats count as much as one beat that is late by their sum; the usual delays of a busy process do not count.
func TestPulse_StarvedInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := NewPulse(), time.Now()
		p.beat(time.Now())
		for range 10 {
			<-time.After(beatEvery + tolerance)
			p.beat(time.Now())
		}
		testkit.Equal(t, p.Starved(), 0, "busy process: got starved")
		for range 10 {
			<-time.After(beatEvery + 300*time.Millisecond)
			p.beat(time.Now())
		}
		if p.Starved() != 3*time.Second || p.StarvedSince(began) {
			t.Errorf("got starved %s, at a stretch: %t", p.Starved(), p.StarvedSince(began))
		}
	})
}
