// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMachine_Histories drives random histories and checks, after each step, what must hold in
// any of them.
func TestMachine_Histories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{m: newMachine(), now: epochZero}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(t)
			w.check(t)
		}
		w.settle(t)
	})
}

// world carries out what the machine decides, as the actor does, and lets things happen to it.
type world struct {
	m         *machine
	now       time.Time
	connected bool
	running   map[int64]bool // epochs that were started and not stopped
	ending    map[int64]bool // stopped, not yet gone
	forgotten bool
}

func (w *world) step(t *rapid.T) {
	next := w.m.want
	pick := func(values ...string) string { return rapid.SampledFrom(values).Draw(t, "value") }
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		next.endpoint = pick("E1", "E2")
	case 1:
		next.credential = pick("C1", "C2")
	case 2:
		next.shape = pick("S1", "S2")
	case 3:
		next.paused = !next.paused
	case 4:
		next.stop = !next.stop
	case 5:
		w.m.applyProbe(bad(pick("E1", "E2")))
	case 6:
		p := good(pick("E1", "E2"))
		p.id = pick("uid-1", "uid-2", "")
		p.holder = ClusterName(pick("", "", "other"))
		p.isHub = pick("", "", "hub") != ""
		w.m.applyProbe(p)
	case 7:
		w.m.applyReady(w.m.epoch, w.now)
	case 8:
		w.m.applyEnded(w.m.epoch, failure{reason: ReasonModuleFailed}, w.now)
	case 9:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
		w.goneAll()
	}
	w.m.applyWant(next)
	w.act(t)
}

func (w *world) goneAll() {
	for epoch := range w.ending {
		delete(w.ending, epoch)
		w.m.applyGone(epoch)
	}
}

func (w *world) act(t *rapid.T) {
	if w.running == nil {
		w.running, w.ending = map[int64]bool{}, map[int64]bool{}
	}
	for _, a := range w.m.decide(w.now) {
		switch a.kind {
		case actConnect:
			if w.connected {
				t.Fatalf("connected twice")
			}
			w.connected = true
		case actDisconnect:
			w.connected = false
		case actSwap:
			if !w.connected {
				t.Fatalf("swapped the credential of no connection")
			}
		case actStart:
			if !w.connected || len(w.running)+len(w.ending) > 0 {
				t.Fatalf("started epoch %d: connected=%v running=%v ending=%v", a.epoch, w.connected, w.running, w.ending)
			}
			w.running[a.epoch] = true
		case actStop:
			if !w.running[a.epoch] {
				t.Fatalf("stopped epoch %d, which does not run", a.epoch)
			}
			delete(w.running, a.epoch)
			w.ending[a.epoch] = true
		case actForget:
			w.forgotten = w.m.want.stop
		}
	}
}

// check holds in every state: nothing runs that must not run.
func (w *world) check(t *rapid.T) {
	info := w.m.view()
	if len(w.running) > 1 {
		t.Fatalf("two epochs run: %v", w.running)
	}
	mustNotRun := w.m.want.stop || w.m.want.paused || w.m.contact != contactOK || w.m.blocked() != nil
	if mustNotRun && len(w.running) > 0 {
		t.Fatalf("an app runs in state %s (%s)", info.State, info.Reason)
	}
	if info.State == StateReady && len(w.running) != 1 {
		t.Fatalf("Ready without an app")
	}
	if (info.State == StateReady) != (info.Reason == ReasonReady) {
		t.Fatalf("state %s has reason %s", info.State, info.Reason)
	}
	if info.Reason == "" {
		t.Fatalf("state %s has no reason", info.State)
	}
	if at := w.m.wakeAt(); !at.IsZero() && !at.After(w.now) {
		t.Fatalf("wants to be woken %s ago: the actor would never sleep", w.now.Sub(at))
	}
}

// settle heals everything and expects the desired state within a bounded number of steps.
func (w *world) settle(t *rapid.T) {
	for range 20 {
		w.goneAll()
		if w.m.knownID == "" {
			w.m.knownID = "uid-1"
		}
		p := good(w.m.endpoint)
		p.id = w.m.knownID
		w.m.applyProbe(p)
		w.m.applyReady(w.m.epoch, w.now)
		w.now = w.now.Add(3 * time.Minute)
		w.act(t)
	}
	got, want := w.m.view().State, StateReady
	switch {
	case w.m.want.stop:
		want = StateStopping
	case w.m.want.paused:
		want = StatePaused
	}
	if got != want || want == StateStopping && !w.forgotten {
		t.Fatalf("settled in state %s (forgotten: %v), want %s", got, w.forgotten, want)
	}
}
