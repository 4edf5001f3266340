// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A controller is stuck when it has not asked for work for 30 s while work waits, and recovers when it asks. Both are
// logged and told once.
func TestMonitor_StuckAndRecovered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		var told []Subject
		m := running(t, Options{Log: funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})})
		m.Notify(func(s Subject) { told = append(told, s) })
		s := Subject{Controller: "cluster"}
		w := busy(m, s, func() int { return 1 })
		<-time.After(29 * time.Second)
		expectWell(t, m, "after less than 30 s")
		<-time.After(2 * time.Second)
		testkit.ErrorHas(t, m.Err(), "no progress for 30s: controller cluster", "after 31 s")
		<-time.After(time.Minute)
		w.ask()
		expectWell(t, m, "after the next request for work")
		<-time.After(2 * time.Second)
		synctest.Wait()
		if len(lines) != 2 || !strings.Contains(lines[0], "A controller makes no progress") || !strings.Contains(lines[1], "makes progress again") {
			t.Errorf("got log %q", lines)
		}
		if !slices.Equal(told, []Subject{s, s}) {
			t.Errorf("told %v", told)
		}
	})
}

// Time in which the process was starved does not count, regardless of its length, nor in pieces that are each too short
// to be an excuse.
func TestMonitor_Starved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause  time.Duration
		pauses int
	}{
		"a second for each tenth": {time.Second, 100},
		"in pieces":               {beatEvery + frozenFor - time.Millisecond, 100},
		"an hour":                 {time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := New(Options{})
				busy(m, Subject{Controller: "cluster"}, func() int { return 1 })
				beat := func() {
					m.pulse.beat(time.Now())
					_ = m.Err()
					synctest.Wait() // for the lengths of queues
				}
				beat()
				for range c.pauses {
					<-time.After(c.pause)
					beat()
					<-time.After(beatEvery)
					beat()
				}
				expectWell(t, m, "after pauses of the process")
				for range 310 {
					<-time.After(beatEvery)
					beat()
				}
				if m.Err() == nil {
					t.Error("a stuck controller is not found when the process runs again")
				}
			})
		})
	}
}

// A hub part that is stuck is reported, and is no reason to release the lease.
func TestMonitor_Modules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := running(t, Options{})
		busy(m, Subject{Module: "dns", Controller: "records"}, func() int { return 1 })
		<-time.After(32 * time.Second)
		if got := m.Stuck("dns"); !slices.Equal(got, []string{"records"}) || m.Stuck("quota") != nil {
			t.Errorf("got stuck controllers %v and %v", got, m.Stuck("quota"))
		}
		expectWell(t, m, "hub part is vital")
	})
}

// A module's queue that does not return its length or panics blocks neither the monitor nor the hub's end, and is not
// asked twice at a time.
func TestMonitor_QueueOfAModule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var asked, failed atomic.Int64
		m := running(t, Options{Log: funcr.New(func(_, line string) {
			if strings.Contains(line, "a module's queue") {
				failed.Add(1)
			}
		}, funcr.Options{})})
		busy(m, Subject{Module: "dns", Controller: "hangs"}, func() int { asked.Add(1); <-release; return 0 })
		busy(m, Subject{Module: "dns", Controller: "panics"}, func() int { panic("a module's queue") })
		busy(m, Subject{Module: "dns", Controller: "stuck"}, func() int { return 1 })
		<-time.After(time.Minute)
		if got := m.Stuck("dns"); !slices.Equal(got, []string{"stuck"}) {
			t.Errorf("got stuck controllers %v", got)
		}
		if asked.Load() != 1 || failed.Load() < 50 {
			t.Errorf("%d calls that hang, %d panics in the log", asked.Load(), failed.Load())
		}
		close(release)
	})
}

// A nil monitor watches nothing and does not panic.
func TestMonitor_None(t *testing.T) {
	t.Parallel()
	var m *Monitor
	m.Notify(nil)
	queue := Queue[ctrl.Request](m, Subject{})("none", workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	queue.ShutDown()
	if m.Err() != nil || m.Stuck("") != nil || m.Pulse() != nil {
		t.Error("nil monitor reports something")
	}
}

func running(t *testing.T, o Options) *Monitor {
	t.Helper()
	m := New(o)
	testkit.Background(t, func(ctx context.Context) error {
		m.Run(ctx)
		return nil
	})
	return m
}

// busy returns the workers of a controller, of which each has taken work.
func busy(m *Monitor, s Subject, length func() int) *workers {
	w := &workers{monitor: m, subject: s, length: length}
	w.ask()
	w.take()
	return w
}

func expectWell(t *testing.T, m *Monitor, when string) {
	t.Helper()
	if err := m.Err(); err != nil {
		t.Errorf("%s: got error %v", when, err)
	}
}
