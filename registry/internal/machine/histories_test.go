// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/registry/state"
)

// TestMachine_Histories drives random histories and checks the invariants after each step.
func TestMachine_Histories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newPlayer(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(t)
			w.check(t)
		}
		w.settle(t)
	})
}

func (w *player) step(t *rapid.T) {
	next := w.m.want
	pick := func(values ...string) string { return rapid.SampledFrom(values).Draw(t, "value") }
	epoch := rapid.SampledFrom([]int64{w.m.App.Epoch, w.m.next.Epoch}).Draw(t, "epoch")
	switch rapid.IntRange(0, 34).Draw(t, "event") {
	case 0, 15:
		next.Endpoint = pick("E1", "E2", "E3")
	case 1, 24, 25, 26, 27:
		next.Credential = pick("C1", "C2", "C3")
	case 2, 16:
		next.Shape = pick("S1", "S2", "S3")
	case 3:
		next.Paused = !next.Paused
	case 4:
		next.Stop = !next.Stop
		next.RemoveBy = rapid.SampledFrom([]time.Time{{}, w.now.Add(20 * time.Second)}).Draw(t, "removeBy")
	case 5, 6:
		p := bad(pick("E1", "E2", "E3"))
		p.Credential = pick("C1", "C2", "C3")
		if p.Refused = pick("", "refused") != ""; p.Refused {
			p.Fatal, p.Failed.Reason = true, state.ReasonUnauthorized
		}
		w.m.applyProbe(p, w.now)
	case 7:
		p := good(pick("E1", "E2", "E3"))
		p.Credential = pick("C1", "C2", "C3")
		p.ID = pick("uid-1", "uid-2", "")
		p.Holder = state.ClusterName(pick("", "", "other"))
		p.IsHub = pick("", "", "hub") != ""
		w.m.applyProbe(p, w.now)
	case 8:
		p := good(w.m.want.Endpoint)
		if l := w.m.ConnectionTo(p.Endpoint); l != nil {
			p.Credential = l.Credential
		}
		w.m.applyProbe(p, w.now)
	case 9:
		w.m.applyReady(epoch, w.now)
	case 10:
		w.failed[epoch] = true
		w.m.applyEnded(AppEnded{Epoch: epoch, Why: Failure{Reason: state.ReasonModuleFailed}, Refused: rapid.Bool().Draw(t, "refused")}, w.now)
	case 11:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second)
		w.finishAll()
	case 12:
		next.CrashRecord.Until = w.now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "minutes")) * time.Minute)
	case 13:
		w.m.applyBuilt(epoch, rapid.IntRange(0, 1).Draw(t, "steps"))
	case 14:
		w.finishAll()
	case 17, 18:
		w.progress()
	case 28, 29:
		next.Warm = !next.Warm
	case 30, 31: // A replica takes a remote over, or gives it away, when it learns of other changes.
		next.Warm = !next.Warm
		next.Endpoint, next.Credential, next.Shape = pick("E1", "E2"), pick("C1", "C2"), pick("S1", "S2")
	case 32, 33:
		next.IdentifyOnly = !next.IdentifyOnly
	case 34:
		next.Identity.Known, next.Identity.Rival = w.m.knownID, state.ClusterName(pick("", "other"))
	case 19:
		next.AcceptCredential = !next.AcceptCredential
	case 20:
		next.Identity.Accepted = pick("", "uid-2")
	case 21, 22, 23:
		w.finishTrial(t, pick("accepted", "accepted", "another cluster", "refused", "unknown"))
	}
	w.m.ApplyWant(next)
	w.act(t)
}

// check verifies the invariants of every state: no app works that must not work.
func (w *player) check(t *rapid.T) {
	info := w.m.Status(w.now)
	if len(w.working) > 1 {
		t.Fatalf("two epochs work: %v", w.working)
	}
	if w.heir != 0 && len(w.yielding)+len(w.ending) == 0 {
		t.Fatalf("epoch %d has room, but does not take over: %+v", w.heir, w.m)
	}
	if (w.trying != "") != w.m.Trial.underway {
		t.Fatalf("%q is on trial, but the machine has %+v", w.trying, w.m.Trial)
	}
	mustNotRun := w.m.over(w.now) || w.m.want.Paused || w.m.want.Warm || w.m.Connection.Contact != ContactOK || w.m.blocked(&w.m.Connection) != nil
	if mustNotRun && len(w.working) > 0 {
		t.Fatalf("an app works in state %s (%s)", info.State, info.Reason)
	}
	if info.State == state.StateReady && len(w.running) == 0 {
		t.Fatalf("state Ready without an app")
	}
	changing := w.m.App.Lent() && !w.m.fits(&w.m.App)
	if (info.State == state.StateReady) != (info.Reason == state.ReasonReady) && !changing {
		t.Fatalf("state %s has reason %s", info.State, info.Reason)
	}
	if info.Reason == "" {
		t.Fatalf("state %s has no reason", info.State)
	}
	if info.State == state.StateWarm && (len(w.running) != 1 || len(w.ending) > 0 || !w.m.fits(&w.m.next) || w.m.Failure != nil) {
		t.Fatalf("state Warm with the apps %v, and %v that end: %+v", w.running, w.ending, w.m)
	}
	w.checkLoan(t, info)
	if at := w.m.WakeAt(w.now); !at.IsZero() && !at.After(w.now) {
		t.Fatalf("wake-up time was %s ago: the actor would never sleep", w.now.Sub(at))
	}
}

// checkLoan verifies an invariant of every state: once the client of an app is lent out, a client of that app or of
// another app stays lent out, until an event of the remote or of the app for which no other app can make up.
func (w *player) checkLoan(t *rapid.T, info state.Status) {
	before := w.lent
	w.lent = 0
	if info.State == state.StateReady && w.m.App.Lent() && w.running[w.m.App.Epoch] {
		w.lent = w.m.App.Epoch
	}
	m := w.m
	isLost := m.Connection.Contact != ContactOK || m.blocked(&m.Connection) != nil ||
		m.Spare.Endpoint != "" && m.Spare.Endpoint == m.want.Endpoint && m.blocked(&m.Spare) != nil ||
		m.replaces(&m.Connection) // another cluster, or a demand of the operator
	if before != 0 && w.lent == 0 && !isLost && !m.want.Stop && !m.want.Paused && !m.want.Warm && !w.failed[before] {
		t.Fatalf("no client is lent out since epoch %d: state %s (%s), app %+v, next %+v",
			before, info.State, info.Reason, m.App, m.next)
	}
}

// settle removes all faults and expects the desired state within a bounded number of steps.
func (w *player) settle(t *rapid.T) {
	w.m.want.IdentifyOnly, w.m.want.Identity.Rival = false, ""
	for range 60 {
		w.finishAll()
		w.act(t)
		if w.m.knownID == "" {
			w.m.knownID = "uid-1"
		}
		w.progress()
		w.finishTrial(t, "accepted")
		w.now = w.now.Add(3 * time.Minute)
		w.act(t)
	}
	got, want := w.m.Status(w.now).State, state.StateReady
	switch {
	case w.m.want.Stop:
		want = state.StateStopping
	case w.m.want.Paused:
		want = state.StatePaused
	case w.m.want.Warm:
		want = state.StateWarm
	}
	if got != want || want == state.StateStopping && !w.forgotten {
		t.Fatalf("settled in state %s (forgotten: %v), want %s: %+v", got, w.forgotten, want, w.m)
	}
	if want == state.StateReady && !w.m.fits(&w.m.App) || want == state.StateWarm && !w.m.fits(&w.m.next) {
		t.Fatalf("settled with an app other than the desired app: %+v", w.m)
	}
	if want == state.StateReady && w.m.Connection.Credential != w.m.want.Credential {
		t.Fatalf("settled with a credential other than the desired credential: %+v", w.m)
	}
}
