// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A subject that does not respond is stuck after three heartbeats, and recovers at its next beat.
func TestMonitor_ThreeMisses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		m, heart, _ := watched(t, log, Subject{Cluster: "edge-1"})
		<-time.After(29 * time.Second)
		expectWell(t, m, "after less than three missed heartbeats")
		<-time.After(12 * time.Second) // The first heartbeat was sent within ten seconds.
		testkit.ErrorHas(t, m.Err(), "cluster edge-1", "after three missed heartbeats")
		heart.Beat()
		expectWell(t, m, "after the next beat")
		<-time.After(time.Second)
		synctest.Wait()
		if len(lines) != 2 || !strings.Contains(lines[0], "Heartbeats missed") || !strings.Contains(lines[1], "Heartbeat recovered") {
			t.Errorf("got log %q", lines)
		}
	})
}

// A subject that responds gets a heartbeat every ten seconds, and is never stuck.
func TestMonitor_Answers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := running(t, Options{})
		var asked atomic.Int64
		heart := m.Watch(Subject{Controller: "a"}, func(h *Heart) { asked.Add(1); h.Beat() })
		for range 300 {
			<-time.After(time.Second)
			must(t, m.Err())
		}
		if n := asked.Load(); n < 28 || n > 30 {
			t.Errorf("got %d heartbeats in five minutes, want 28 to 30", n)
		}
		heart.Stop()
		<-time.After(time.Minute)
		if asked.Load() > 30 || m.Err() != nil {
			t.Errorf("subject gets heartbeats after its end")
		}
	})
}

// Time in which the process was starved does not count, regardless of its length.
func TestMonitor_Starved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		m.Watch(Subject{Controller: "a"}, func(*Heart) {})
		// The process runs for a tenth of a second in each second: beats and checks are equally late.
		for range 100 {
			<-time.After(time.Second)
			m.check()
			m.pulse.beat(time.Now())
			m.check()
			<-time.After(beatEvery)
			m.pulse.beat(time.Now())
		}
		expectWell(t, m, "after 110 s with 20 s of run time")
		// With enough time for the process, a stuck subject is found.
		for range 400 {
			<-time.After(beatEvery)
			m.pulse.beat(time.Now())
			m.check()
		}
		if m.Err() == nil {
			t.Error("stuck subject is not found when the process runs again")
		}
	})
}

// Starvation in pieces that are each too short to be an excuse does not count either: the process is stopped and
// continued a hundred times, and runs for a fifth of the time.
func TestMonitor_StarvedInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		m.Watch(Subject{Controller: "a"}, func(*Heart) {})
		m.pulse.beat(time.Now())
		for range 100 {
			<-time.After(beatEvery + frozenFor - time.Millisecond)
			m.pulse.beat(time.Now())
			m.check()
		}
		if missed := m.Missed(); len(missed) > 0 && missed[0].Stuck {
			t.Errorf("after 50 s with 10 s of run time: got missed heartbeats %v", missed)
		}
		if m.pulse.StarvedSince(m.born) {
			t.Error("short pieces excuse a probe that takes seconds")
		}
	})
}

// A stuck hub part is reported, and is no reason to release the lease.
func TestMonitor_Modules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := Subject{Module: "dns", Controller: "records"}
		m, _, _ := watched(t, logr.Discard(), s)
		<-time.After(42 * time.Second)
		if missed := m.Missed(); len(missed) != 1 || missed[0].Subject != s || !missed[0].Stuck || missed[0].Beats < 3 {
			t.Errorf("got missed heartbeats %v", missed)
		}
		expectWell(t, m, "hub part is vital")
	})
}

// The metric has every controller, but a remote only if it has missed a heartbeat.
func TestMonitor_Metric(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, heart, answer := watched(t, logr.Discard(), Subject{Cluster: "edge-1"})
		answer.Store(true)
		m.Watch(Subject{Controller: "cluster"}, func(*Heart) {})
		<-time.After(42 * time.Second)
		// The other series is the monitor's own.
		testkit.Equal(t, testutil.CollectAndCount(m), 2, "series")
		if got := series(m)[Subject{Controller: "cluster"}]; got < 3 {
			t.Errorf("got %g missed heartbeats, want at least 3", got)
		}
		answer.Store(false)
		heart.Beat()
		<-time.After(22 * time.Second)
		testkit.Equal(t, testutil.CollectAndCount(m), 3, "series")
	})
}

// A nil monitor watches no subject and does not panic.
func TestMonitor_None(t *testing.T) {
	t.Parallel()
	var m *Monitor
	heart := m.Watch(Subject{Cluster: "edge-1"}, func(*Heart) {})
	heart.Beat()
	heart.Stop()
	if m.Err() != nil || m.Missed() != nil {
		t.Error("nil monitor reports an error or missed heartbeats")
	}
}

func running(t *testing.T, o Options) *Monitor {
	t.Helper()
	m := New(o)
	done := make(chan struct{})
	ctx, cancel := contextOf(t)
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return m
}

// watched returns a monitor and a subject that responds while answer is true.
func watched(t *testing.T, log logr.Logger, s Subject) (m *Monitor, heart *Heart, answer *atomic.Bool) {
	t.Helper()
	m, answer = running(t, Options{Log: log}), new(atomic.Bool)
	heart = m.Watch(s, func(h *Heart) {
		if answer.Load() {
			h.Beat()
		}
	})
	return m, heart, answer
}

func expectWell(t *testing.T, m *Monitor, when string) {
	t.Helper()
	if err := m.Err(); err != nil {
		t.Errorf("%s: got error %v", when, err)
	}
}
