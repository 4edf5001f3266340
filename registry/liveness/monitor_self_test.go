// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A monitor whose own goroutine is stuck reports itself, in the error, in the list and in the metric, until the goroutine continues.
func TestMonitor_WatchesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		log := &sink{onLine: func(string) { <-release }}
		m := running(t, Options{Log: logr.New(log)})
		m.Watch(Subject{Module: "dns"}, func(*Heart) {}) // This log line is never written.
		ofItself := func() (missed Missed) {
			for _, one := range m.Missed() {
				if one.Subject == self() {
					missed = one
				}
			}
			return missed
		}
		<-time.After(55 * time.Second)
		expectWell(t, m, "after less than three missed heartbeats")
		<-time.After(30 * time.Second)
		testkit.ErrorHas(t, m.Err(), "controller liveness", "stuck monitor")
		got := ofItself()
		if got.Beats < 3 || !got.Stuck {
			t.Errorf("stuck monitor: got missed heartbeats %v, want at least 3, and stuck", m.Missed())
		}
		if metric := series(m)[self()]; metric != float64(got.Beats) {
			t.Errorf("got metric %g, want %d", metric, got.Beats)
		}
		close(release)
		<-time.After(time.Second)
		expectWell(t, m, "after the goroutine continues")
		if got := ofItself(); got != (Missed{}) {
			t.Errorf("after the goroutine continues: got missed heartbeats %v", got)
		}
		if metric, exists := series(m)[self()]; metric != 0 || !exists {
			t.Errorf("after the goroutine continues: got metric %g (exists: %t), want 0", metric, exists)
		}
	})
}

// Time in which the process was starved does not count against the monitor either.
func TestMonitor_ItselfStarved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		m.run(true)
		m.pulse.beat(time.Now())
		<-time.After(time.Hour)
		expectWell(t, m, "after a freeze of the process")
		for range 310 {
			m.pulse.beat(time.Now())
			<-time.After(beatEvery)
		}
		if m.Err() == nil {
			t.Error("no error after 31 s without a finished check")
		}
	})
}

// A controller whose queue does not return from Add, and a notified function that does not return, block neither the monitor, nor the
// heartbeats of another subject, nor the end. A subject that has not received the first heartbeat is not sent a second one.
func TestMonitor_BlockedFunctions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		ended := make(chan struct{})
		log := &sink{}
		m := New(Options{Log: logr.New(log)})
		ctx, cancel := contextOf(t)
		go func() {
			defer close(ended)
			m.Run(ctx)
		}()
		var asked, beaten, told atomic.Int64
		stuck := Subject{Module: "dns", Controller: "records"}
		m.Watch(stuck, func(*Heart) { asked.Add(1); <-release })
		m.Watch(Subject{Module: "quota"}, func(h *Heart) { beaten.Add(1); h.Beat() })
		m.Notify(func(Subject) { told.Add(1); <-release })
		<-time.After(5 * time.Minute)
		expectWell(t, m, "hub part blocks the monitor")
		if missed := m.Missed(); len(missed) != 1 || missed[0].Subject != stuck || !missed[0].Stuck {
			t.Errorf("got missed heartbeats %v", missed)
		}
		if asked.Load() != 1 || told.Load() != 1 || beaten.Load() < 28 {
			t.Errorf("blocked queue: got %d heartbeats and %d notifications; other queue: got %d heartbeats",
				asked.Load(), told.Load(), beaten.Load())
		}
		cancel()
		<-ended
		if !log.has("Left a goroutine behind") {
			t.Errorf("got log %q", log.lines)
		}
		close(release)
	})
}

// A change during a notification is notified after the function has returned.
func TestMonitor_ToldAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		m, heart, _ := watched(t, logr.Discard(), Subject{Module: "dns"})
		var last atomic.Int64
		m.Notify(func(Subject) {
			missed := len(m.Missed())
			<-release
			last.Store(int64(missed))
		})
		last.Store(-1)
		<-time.After(time.Minute)
		heart.Beat()
		<-time.After(time.Second)
		if last.Load() != -1 {
			t.Error("function has returned before its release")
		}
		close(release)
		synctest.Wait()
		if last.Load() != 0 {
			t.Errorf("last notification after the recovery: got %d missed, want 0", last.Load())
		}
	})
}

// A queue that panics does not receive its heartbeat, and the hub stays healthy.
func TestMonitor_PanicOfAQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &sink{}
		m := running(t, Options{Log: logr.New(log)})
		m.Watch(Subject{Module: "dns"}, func(*Heart) { panic("a module's queue") })
		<-time.After(time.Minute)
		if missed := m.Missed(); len(missed) != 1 || !missed[0].Stuck || m.Err() != nil {
			t.Errorf("got missed heartbeats %v and error of the hub %v", missed, m.Err())
		}
		if !log.has("a module's queue") {
			t.Errorf("got log %q", log.lines)
		}
	})
}

// Values for the log are created only for a log line, and without the monitor's lock.
func TestMonitor_LogsOutsideOfTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &sink{}
		m, _, _ := watched(t, logr.New(log), Subject{Module: "dns"})
		log.onValues = func() {
			if !m.mu.TryLock() {
				t.Error("values for the log are created under the lock")
				return
			}
			m.mu.Unlock()
		}
		<-time.After(29 * time.Second)
		if n := log.values.Load(); n != 0 {
			t.Errorf("values for the log were created %d times without a log line", n)
		}
		<-time.After(time.Minute)
		if n := log.values.Load(); n != 1 || !log.has("Heartbeats missed") {
			t.Errorf("values for the log were created %d times for %q", n, log.lines)
		}
	})
}

// sink is a log sink that keeps its lines.
type sink struct {
	onLine   func(string) // may be nil, as onValues
	onValues func()
	values   atomic.Int64 // number of calls of WithValues

	mu    sync.Mutex // protects lines
	lines []string
}

var _ logr.LogSink = (*sink)(nil)

func (s *sink) Init(logr.RuntimeInfo) {}

func (s *sink) Enabled(int) bool { return true }

func (s *sink) Info(_ int, line string, _ ...any) { s.write(line) }

func (s *sink) Error(err error, line string, _ ...any) { s.write(line + ": " + err.Error()) }

func (s *sink) WithName(string) logr.LogSink { return s }

func (s *sink) WithValues(...any) logr.LogSink {
	s.values.Add(1)
	if s.onValues != nil {
		s.onValues()
	}
	return s
}

func (s *sink) write(line string) {
	if s.onLine != nil {
		s.onLine(line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *sink) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lines, func(line string) bool { return strings.Contains(line, text) })
}

// series returns the values of the metric, by subject.
func series(m *Monitor) map[Subject]float64 {
	all, collected := map[Subject]float64{}, make(chan prometheus.Metric, 100)
	m.Collect(collected)
	close(collected)
	for one := range collected {
		var text dto.Metric
		if one.Write(&text) != nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range text.GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		all[Subject{labels["module"], labels["controller"], labels["cluster"]}] = text.GetGauge().GetValue()
	}
	return all
}
