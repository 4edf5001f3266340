// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/registry/state"
)

// player performs the actions of the machine, as the actor does, and draws events.
type player struct {
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

// newPlayer returns a player with a new remote, with a remote whose app is Ready, with a remote that has changed again
// during the hand-over between two apps, or with a warm remote that this hub or another hub takes over.
func newPlayer(t *rapid.T) *player {
	w := &player{
		m: newMachine(), now: epochZero,
		running: map[int64]bool{}, working: map[int64]bool{}, ending: map[int64]bool{},
		accepted: map[string]bool{}, moved: map[string]bool{}, worked: map[string]bool{},
		yielding: map[int64]bool{}, cleaning: map[int64]bool{}, failed: map[int64]bool{},
	}
	opening := rapid.SampledFrom([]string{"new", "ready", "hand-over", "warm"}).Draw(t, "opening")
	if opening == "new" {
		return w
	}
	w.m.want.Warm = opening == "warm"
	w.act(t)
	w.m.applyProbe(good(w.m.want.Endpoint), w.now)
	w.act(t)
	w.m.applyReady(w.m.Latest().Epoch, w.now)
	w.act(t)
	w.check(t)
	switch opening {
	case "hand-over":
		w.handOver(t)
	case "warm":
		for range rapid.IntRange(1, 3).Draw(t, "owners") {
			w.takeOver(t)
		}
	}
	return w
}

// takeOver changes which hub has the remote at work. The remote may change at the same moment, and its app may fail before.
func (w *player) takeOver(t *rapid.T) {
	if rapid.Bool().Draw(t, "fails") {
		w.failed[w.m.Latest().Epoch] = true
		w.m.applyEnded(AppEnded{Epoch: w.m.Latest().Epoch, Why: boom, Refused: rapid.Bool().Draw(t, "refused")}, w.now)
		w.act(t)
		w.check(t)
	}
	next := w.m.want
	next.Warm = !next.Warm
	if rapid.Bool().Draw(t, "changes") {
		next.Shape = rapid.SampledFrom([]string{"S1", "S2"}).Draw(t, "shape")
		next.Endpoint = rapid.SampledFrom([]string{"E1", "E2"}).Draw(t, "endpoint")
		next.Credential = rapid.SampledFrom([]string{"C1", "C2"}).Draw(t, "credential")
	}
	w.m.ApplyWant(next)
	w.act(t)
	w.check(t)
	for range 2 { // The old app ends, and the next one starts.
		w.finishAll()
		w.now = w.now.Add(time.Minute)
		w.act(t)
		w.progress()
		w.act(t)
		w.check(t)
	}
}

// handOver changes the remote, lets its app make room for another app, and changes the remote again before the other
// app has taken over.
func (w *player) handOver(t *rapid.T) {
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
func (w *player) change(t *rapid.T) {
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

// progress lets the probes of the remote succeed, and starting apps become ready.
func (w *player) progress() {
	for _, l := range []Connection{w.m.Connection, w.m.Spare} {
		p := good(l.Endpoint)
		p.Credential, p.ID = l.Credential, w.m.knownID
		w.m.applyProbe(p, w.now)
	}
	w.m.applyReady(w.m.App.Epoch, w.now)
	w.m.applyReady(w.m.next.Epoch, w.now)
}

// finishTrial ends the current attempt, if there is one.
func (w *player) finishTrial(t *rapid.T, how string) {
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

func (w *player) finishAll() {
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

func (w *player) act(t *rapid.T) {
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
func (w *player) mayTakeOver() bool {
	l := w.m.ConnectionTo(w.m.next.endpoint)
	return !w.m.want.Paused && !w.m.want.Warm && !w.m.over(w.now) && !w.failed[w.heir] && w.m.Usable(l) && !w.m.replaces(l)
}

func (w *player) perform(t *rapid.T, a Action) {
	must := func(ok bool, what string) {
		if !ok {
			t.Fatalf("%s: epoch %d, %+v", what, a.Epoch, w)
		}
	}
	must(a.Kind != Start && a.Kind != Prepare || !w.m.want.IdentifyOnly, "started an app of a remote that is to be identified only")
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
		must(w.line && len(w.running)+len(w.ending) == 0 && !w.m.want.Warm, "started")
		w.running[a.Epoch], w.working[a.Epoch] = true, true
	case Prepare:
		must(len(w.ending) == 0 && (len(w.running) == 1 || w.m.want.Warm && w.line && len(w.running) == 0), "prepared")
		w.running[a.Epoch] = true
	case Release:
		must(w.running[a.Epoch] && len(w.working)+len(w.ending) == 0 && !w.m.want.Warm, "released")
		must(!w.m.want.IdentifyOnly || a.Epoch == w.heir, "released the app of a remote that is to be identified only")
		must(w.m.fits(&w.m.App) || a.Epoch == w.heir, "released an app other than the desired app, for which no app has yielded")
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
		must(w.working[a.Epoch] && w.m.want.Stop && !w.m.want.Warm, "cleaned")
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
