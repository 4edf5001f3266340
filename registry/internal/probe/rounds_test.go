// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/state"
)

// fakeRemote is what a Connection probes in a test with a clock of its own.
type fakeRemote struct {
	*Connection
	heardAt    atomic.Int64 // in nanoseconds; bytes are received all the time if it is zero
	fails      atomic.Bool
	starved    atomic.Bool         // the hub is short of CPU time during each probe
	began      chan machine.Probed // what each probe knew before
	waits      atomic.Bool         // a probe waits for proceed
	identifies atomic.Bool         // a probe reads the identity
	proceed    chan struct{}
	reported   atomic.Int64
}

// startFake starts a Connection with the default pace whose probes are those of a fakeRemote, and returns after the second
// probe, which is the first at the pace.
func startFake(t *testing.T, server *apiServer) *fakeRemote {
	t.Helper()
	f := &fakeRemote{
		Connection: server.connect(t, Pace{Period: 5 * time.Second, Timeout: 3 * time.Second}),
		began:      make(chan machine.Probed, 100), proceed: make(chan struct{}),
	}
	f.rounds.heard = func(net.Conn) time.Time {
		if at := f.heardAt.Load(); at != 0 {
			return time.Unix(0, at)
		}
		return time.Now()
	}
	f.rounds.probe = func(ctx context.Context, last machine.Probed) (machine.Probed, error) {
		f.began <- last
		if f.waits.Load() {
			select {
			case <-f.proceed:
			case <-ctx.Done():
				return machine.Probed{}, ctx.Err()
			}
		}
		if f.identifies.Load() {
			f.identified = time.Now()
		}
		if f.fails.Load() {
			return machine.Probed{Failed: state.Condition{Reason: "TimedOut"}}, context.DeadlineExceeded
		}
		return machine.Probed{Endpoint: "e", OK: true, ID: "id"}, nil
	}
	f.shared.Starved = func(time.Time) bool { return f.starved.Load() }
	f.Start(func(machine.Probed) { f.reported.Add(1) })
	return f
}

// withFake runs a test after the second probe of a fakeRemote.
func withFake(t *testing.T, test func(*testing.T, *fakeRemote)) {
	t.Helper()
	t.Parallel()
	server := newAPIServer(t)
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, server)
		defer f.Close()
		f.next()
		test(t, f)
	})
}

func (f *fakeRemote) next() time.Duration {
	began := time.Now()
	<-f.began
	return time.Since(began)
}

func expectWithin(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: the next probe begins after %s, want %s to %s", what, got, least, most)
	}
}

// The remote is probed after two periods where nothing is heard, and otherwise after at most nine tenths of 20 s.
func TestRounds_Pace(t *testing.T) {
	withFake(t, func(t *testing.T, f *fakeRemote) {
		expectWithin(t, "bytes are received", f.next(), 15*time.Second, 18*time.Second)
		expectWithin(t, "bytes are received", f.next(), 15*time.Second, 18*time.Second)
		<-time.After(7 * time.Second)
		f.heardAt.Store(time.Now().UnixNano())
		expectWithin(t, "nothing is received since", f.next(), 8*time.Second, 9500*time.Millisecond)
		expectWithin(t, "nothing is received", f.next(), 8*time.Second, 9500*time.Millisecond)
		f.fails.Store(true)
		f.next()
		expectWithin(t, "the probe failed", f.next(), time.Second, time.Second)
		f.heardAt.Store(0)
		expectWithin(t, "the probe failed, and bytes are received", f.next(), time.Second, time.Second)
		f.fails.Store(false)
		f.next()
		expectWithin(t, "the probe succeeded", f.next(), 15*time.Second, 18*time.Second)
		f.SetPace(Pace{Period: time.Minute, Timeout: time.Second}, Steady)
		expectWithin(t, "a long period", f.next(), 59*time.Second, 66*time.Second)
		f.SetPace(Pace{Period: time.Second, Timeout: time.Second}, Steady)
		f.next()
		expectWithin(t, "a short period", f.next(), 3*time.Second, 3600*time.Millisecond)
		f.SetPace(Pace{Period: 5 * time.Second, Timeout: time.Second}, Urgent)
		expectWithin(t, "the remote is not known to be healthy", f.next(), time.Second, time.Second)
	})
}

// A doubt triggers a probe at once, but not before the period has passed since the last one, however often it is raised.
func TestRounds_Doubt(t *testing.T) {
	withFake(t, func(t *testing.T, f *fakeRemote) {
		<-time.After(10 * time.Second)
		f.Doubt()
		expectWithin(t, "a doubt", f.next(), 0, 0)
		f.Doubt()
		f.Doubt()
		expectWithin(t, "a doubt soon after a probe", f.next(), 5*time.Second, 5500*time.Millisecond)
		expectWithin(t, "the doubt is over", f.next(), 15*time.Second, 18*time.Second)
	})
}

// The probes of healthy remotes begin at common moments.
func TestRounds_Aligned(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	synctest.Test(t, func(t *testing.T) {
		<-time.After(300 * time.Millisecond)
		f := startFake(t, server)
		defer f.Close()
		f.next()
		for range 5 {
			f.next()
			if now := time.Now(); !now.Equal(now.Truncate(time.Second)) {
				t.Errorf("a probe begins at %s, want a full second", now)
			}
		}
	})
}

// A probe that is triggered during a probe follows at once, and forgets what is known. Close ends the probe under way.
func TestRounds_TriggeredDuringAProbe(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	synctest.Test(t, func(t *testing.T) {
		f := startFake(t, server)
		f.next()
		synctest.Wait()
		f.waits.Store(true)
		if last := <-f.began; last.ID == "" {
			t.Error("a probe at the pace does not know the last outcome")
		}
		f.ProbeNow()
		f.ProbeNow()
		f.Doubt()
		f.SetPace(Pace{Period: 5 * time.Second, Timeout: time.Second}, Urgent)
		synctest.Wait()
		if len(f.began) != 0 {
			t.Error("two probes run at the same time")
		}
		f.proceed <- struct{}{}
		ended := time.Now()
		if last := <-f.began; last.ID != "" {
			t.Error("a triggered probe knows the last outcome, want none")
		}
		if late := time.Since(ended); late != 0 {
			t.Errorf("a triggered probe begins %s after the end of the probe before, want at once", late)
		}
		reports := f.reported.Load()
		f.Close()
		<-time.After(time.Hour)
		if len(f.began) != 0 || f.reported.Load() != reports {
			t.Error("a closed Connection probes or reports")
		}
	})
}

// A settled remote is reported when its outcome changes or includes the identity, and each time otherwise.
func TestRounds_Settled(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	synctest.Test(t, func(t *testing.T) {
		f, pace := startFake(t, server), Pace{Period: 5 * time.Second, Timeout: 3 * time.Second}
		defer f.Close()
		probes := func(n int64) (reports int64) {
			synctest.Wait()
			before := f.reported.Load()
			for range n {
				f.next()
			}
			synctest.Wait()
			return f.reported.Load() - before
		}
		f.next()
		if got := probes(3); got != 3 {
			t.Errorf("%d of 3 outcomes of a steady remote are reported, want all", got)
		}
		f.SetPace(pace, Settled)
		if got := probes(3); got != 0 {
			t.Errorf("%d of 3 equal outcomes of a settled remote are reported, want none", got)
		}
		before := f.reported.Load()
		f.ProbeNow()
		f.next()
		synctest.Wait()
		if f.reported.Load() == before {
			t.Error("the outcome of a triggered probe is not reported")
		}
		f.identifies.Store(true)
		if got := probes(2); got != 2 {
			t.Errorf("%d of 2 outcomes with the identity are reported, want both", got)
		}
		f.identifies.Store(false)
		f.fails.Store(true)
		if got := probes(2); got == 0 {
			t.Error("a failure of a settled remote is not reported")
		}
	})
}

// A failed probe that has taken its time is followed by the next one at once.
func TestRounds_AfterATimeout(t *testing.T) {
	withFake(t, func(t *testing.T, f *fakeRemote) {
		synctest.Wait()
		f.fails.Store(true)
		f.waits.Store(true)
		f.next()
		<-time.After(3 * time.Second)
		f.proceed <- struct{}{}
		expectWithin(t, "a probe timed out", f.next(), 0, 0)
	})
}

// A probe that failed while the hub was starved is repeated at once and does not count against the remote, once in a row: a hub
// that is always starved finds out that a remote is gone.
func TestRounds_Starved(t *testing.T) {
	withFake(t, func(t *testing.T, f *fakeRemote) {
		f.starved.Store(true)
		for range 2 {
			synctest.Wait()
			f.fails.Store(true)
			before := f.reported.Load()
			f.next()
			expectWithin(t, "the hub was starved", f.next(), 0, 0)
			synctest.Wait()
			if got := f.reported.Load() - before; got != 1 {
				t.Errorf("%d of 2 failed probes of a starved hub are reported, want the second", got)
			}
			f.fails.Store(false)
			expectWithin(t, "the hub was starved twice in a row", f.next(), time.Second, time.Second)
		}
	})
}
