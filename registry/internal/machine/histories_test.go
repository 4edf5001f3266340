// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/registry/state"
)

// TestMachine_Histories drives random histories and checks the invariants after each step.
func TestMachine_Histories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step(t)
			w.check(t)
		}
		w.settle(t)
	})
}

// world performs the actions of the machine, as the actor does, and draws events.
type world struct {
	m           *Machine
	now         time.Time
	line, spare bool
	running     map[int64]bool // epochs that were started, and neither stopped nor retired
	working     map[int64]bool // epochs whose controllers may work
	ending      map[int64]bool // stopped, not yet gone
	yielding    map[int64]bool
	heir        int64 // the warm epoch for which the yielding epoch makes room; zero if no epoch can take over
	cleaning    map[int64]bool
	forgotten   bool

	trying   string          // endpoint and credential on trial, during an attempt
	accepted map[string]bool // endpoints with credentials that they have accepted in the last trial
	moved    map[string]bool // entries of accepted that lead to another cluster than the connection does
	worked   map[string]bool // endpoints whose credential was good before the last decision

	lent   int64          // the epoch whose client was lent out after the last step; zero for none
	failed map[int64]bool // epochs that have ended by themselves
}

// newWorld returns a world with a new remote, with a remote whose app is Ready, or with a remote that has changed again
// during the hand-over between two apps.
func newWorld(t *rapid.T) *world {
	w := &world{
		m: newMachine(), now: epochZero,
		running: map[int64]bool{}, working: map[int64]bool{}, ending: map[int64]bool{},
		accepted: map[string]bool{}, moved: map[string]bool{}, worked: map[string]bool{},
		yielding: map[int64]bool{}, cleaning: map[int64]bool{}, failed: map[int64]bool{},
	}
	opening := rapid.SampledFrom([]string{"new", "ready", "hand-over"}).Draw(t, "opening")
	if opening == "new" {
		return w
	}
	w.act(t)
	w.m.applyProbe(good(w.m.want.Endpoint), w.now)
	w.act(t)
	w.m.applyReady(w.m.App.Epoch, w.now)
	w.act(t)
	w.check(t)
	if opening == "hand-over" {
		w.handOver(t)
	}
	return w
}

// handOver changes the remote, lets its app make room for another app, and changes the remote again before the other
// app has taken over.
func (w *world) handOver(t *rapid.T) {
	w.change(t)
	for range 2 { // first the probe of the connection, then the app on it
		w.progress()
		w.act(t)
		w.check(t)
	}
	if rapid.Bool().Draw(t, "yielded") {
		w.finishAll()
	}
	w.change(t)
}

// change moves the remote to another server, or changes its modules.
func (w *world) change(t *rapid.T) {
	next := w.m.want
	if rapid.Bool().Draw(t, "moves") {
		next.Endpoint = rapid.SampledFrom([]string{"E1", "E2", "E3"}).Draw(t, "endpoint")
	} else {
		next.Shape = rapid.SampledFrom([]string{"S1", "S2", "S3"}).Draw(t, "shape")
	}
	w.m.ApplyWant(next)
	w.act(t)
	w.check(t)
}

func (w *world) step(t *rapid.T) {
	next := w.m.want
	pick := func(values ...string) string { return rapid.SampledFrom(values).Draw(t, "value") }
	epoch := rapid.SampledFrom([]int64{w.m.App.Epoch, w.m.next.Epoch}).Draw(t, "epoch")
	switch rapid.IntRange(0, 27).Draw(t, "event") {
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
		w.m.applyEnded(epoch, Failure{Reason: state.ReasonModuleFailed}, w.now)
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

// progress lets the probes of the remote succeed, and starting apps become ready.
func (w *world) progress() {
	for _, l := range []Connection{w.m.Connection, w.m.Spare} {
		p := good(l.Endpoint)
		p.Credential, p.ID = l.Credential, w.m.knownID
		w.m.applyProbe(p, w.now)
	}
	w.m.applyReady(w.m.App.Epoch, w.now)
	w.m.applyReady(w.m.next.Epoch, w.now)
}

// finishTrial ends the current attempt, if there is one.
func (w *world) finishTrial(t *rapid.T, how string) {
	tried := w.m.Trial
	if !tried.underway {
		return
	}
	f := Tried{Probed: good(tried.Endpoint)}
	f.Credential, f.ID = tried.credential, w.m.knownID
	switch how {
	case "accepted":
	case "another cluster":
		f.ID = "uid-2"
	case "refused":
		f.OK, f.Refused, f.Failed = false, true, state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonUnauthorized, Message: "401"}
	default:
		f.OK, f.Failed = false, state.Condition{Status: metav1.ConditionFalse, Reason: "TimedOut", Message: "no answer"}
	}
	w.m.applyTrial(f, w.now)
	w.trying = ""
	if w.m.Trial.Accepted && !w.m.Expects(f.ID) {
		t.Fatalf("accepted a credential that leads to %s: %+v", f.ID, w.m)
	}
	w.accepted[tried.Endpoint+tried.credential] = w.m.Trial.Accepted
	id := w.m.ConnectionTo(tried.Endpoint).id
	w.moved[tried.Endpoint+tried.credential] = id != "" && f.ID != "" && id != f.ID
}

// finishAll finishes all actions that have begun.
func (w *world) finishAll() {
	for epoch := range w.yielding {
		delete(w.yielding, epoch)
		w.m.applyYielded(epoch)
	}
	for epoch := range w.cleaning {
		delete(w.cleaning, epoch)
		w.m.applyCleaned(epoch)
	}
	for epoch := range w.ending {
		delete(w.ending, epoch)
		w.m.applyGone(epoch)
	}
}

func (w *world) act(t *rapid.T) {
	for _, endpoint := range []string{w.m.Connection.Endpoint, w.m.Spare.Endpoint} {
		w.worked[endpoint] = endpoint != "" && w.m.Usable(w.m.ConnectionTo(endpoint))
	}
	if w.heir != 0 && !w.mayTakeOver() {
		w.heir = 0
	}
	for _, a := range w.m.Decide(w.now) {
		w.perform(t, a)
	}
}

// mayTakeOver reports whether the heir can still replace the yielding app. Another change of the remote does not
// prevent it: the app for that change is built beside the heir.
func (w *world) mayTakeOver() bool {
	l := w.m.ConnectionTo(w.m.next.endpoint)
	return !w.m.want.Paused && !w.m.over(w.now) && !w.failed[w.heir] && w.m.Usable(l) && !w.m.replaces(l)
}

func (w *world) perform(t *rapid.T, a Action) {
	must := func(ok bool, what string) {
		if !ok {
			t.Fatalf("%s: epoch %d, %+v", what, a.Epoch, w)
		}
	}
	switch a.Kind {
	case Connect:
		must(!w.line, "connected twice")
		w.line = true
	case ConnectSpare:
		must(w.line && !w.spare, "connected a spare line")
		w.spare = true
	case Disconnect:
		must(w.line, "disconnected nothing")
		w.line = false
	case DropSpare:
		must(w.spare, "dropped nothing")
		w.spare = false
	case Adopt:
		must(w.spare && !w.line, "adopted")
		w.line, w.spare = true, false
	case Swap, SwapSpare:
		must(a.Kind == Swap && w.line || a.Kind == SwapSpare && w.spare, "swapped the credential of no line")
		must(!w.worked[a.Endpoint] || w.accepted[a.Endpoint+a.Credential] || w.m.want.AcceptCredential,
			"replaced a credential that works by one that was not accepted")
		isUsed := w.running[w.m.App.Epoch] && w.m.App.endpoint == a.Endpoint || w.running[w.m.next.Epoch] && w.m.next.endpoint == a.Endpoint
		must(!isUsed || w.accepted[a.Endpoint+a.Credential] && !w.moved[a.Endpoint+a.Credential],
			"replaced the credential under an app by one that was not accepted, or leads to another cluster")
	case Try:
		must(w.trying == "", "tried two credentials at once")
		w.trying = a.Endpoint + a.Credential
		w.accepted[w.trying] = false
	case EndTrial:
		must(w.trying != "", "ended no trial")
		w.trying = ""
	case Start:
		must(w.line && len(w.running)+len(w.ending) == 0, "started")
		w.running[a.Epoch], w.working[a.Epoch] = true, true
	case Prepare:
		must(len(w.running) == 1 && len(w.ending) == 0, "prepared")
		w.running[a.Epoch] = true
	case Release:
		must(w.running[a.Epoch] && len(w.working) == 0, "released")
		w.working[a.Epoch], w.heir = true, 0
	case Yield:
		must(w.working[a.Epoch] && w.running[w.m.next.Epoch], "yielded")
		w.heir = w.m.next.Epoch
		delete(w.working, a.Epoch)
		w.yielding[a.Epoch] = true
	case Retire:
		must(w.running[a.Epoch] && !w.working[a.Epoch] && !w.yielding[a.Epoch] && len(w.running) == 2, "retired")
		delete(w.running, a.Epoch)
	case Clean:
		must(w.working[a.Epoch] && w.m.want.Stop, "cleaned")
		delete(w.working, a.Epoch)
		w.cleaning[a.Epoch] = true
	case Stop:
		must(w.running[a.Epoch], "stopped what does not run")
		must(a.Epoch != w.heir, "stopped the warm app that another one makes room for")
		delete(w.running, a.Epoch)
		delete(w.working, a.Epoch)
		w.ending[a.Epoch] = true
	case Forget:
		must(!w.line && !w.spare && len(w.running)+len(w.ending) == 0, "forgotten")
		w.forgotten = w.m.want.Stop
	}
}

// check verifies the invariants of every state: no app works that must not work.
func (w *world) check(t *rapid.T) {
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
	mustNotRun := w.m.over(w.now) || w.m.want.Paused || w.m.Connection.Contact != ContactOK || w.m.blocked(&w.m.Connection) != nil
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
	w.checkLoan(t, info)
	if at := w.m.WakeAt(w.now); !at.IsZero() && !at.After(w.now) {
		t.Fatalf("wake-up time was %s ago: the actor would never sleep", w.now.Sub(at))
	}
}

// checkLoan verifies an invariant of every state: once the client of an app is lent out, a client of that app or of
// another app stays lent out, until an event of the remote or of the app for which no other app can make up.
func (w *world) checkLoan(t *rapid.T, info state.Status) {
	before := w.lent
	w.lent = 0
	if info.State == state.StateReady && w.m.App.Lent() && w.running[w.m.App.Epoch] {
		w.lent = w.m.App.Epoch
	}
	m := w.m
	isLost := m.Connection.Contact != ContactOK || m.blocked(&m.Connection) != nil ||
		m.Spare.Endpoint != "" && m.Spare.Endpoint == m.want.Endpoint && m.blocked(&m.Spare) != nil ||
		m.replaces(&m.Connection) // another cluster, or a demand of the operator
	if before != 0 && w.lent == 0 && !isLost && !m.want.Stop && !m.want.Paused && !w.failed[before] {
		t.Fatalf("no client is lent out since epoch %d: state %s (%s), app %+v, next %+v",
			before, info.State, info.Reason, m.App, m.next)
	}
}

// settle removes all faults and expects the desired state within a bounded number of steps.
func (w *world) settle(t *rapid.T) {
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
	}
	if got != want || want == state.StateStopping && !w.forgotten {
		t.Fatalf("settled in state %s (forgotten: %v), want %s: %+v", got, w.forgotten, want, w.m)
	}
	if want == state.StateReady && !w.m.fits(&w.m.App) {
		t.Fatalf("settled with an app other than the desired app: %+v", w.m)
	}
	if want == state.StateReady && w.m.Connection.Credential != w.m.want.Credential {
		t.Fatalf("settled with a credential other than the desired credential: %+v", w.m)
	}
}
