// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// machine decides what happens to one remote. It is pure: facts come in through its apply
// methods with the time at which they were learnt, decide compares them with what is wanted and
// says what to do next. It starts no goroutine, reads no clock and does no I/O, so that
// thousands of histories of it run in a second.
//
// It is level-based itself: decide looks at facts only, never at the order in which they came.
//
// There are two places for connections and two for apps, so that one can take the place of
// another without a gap. The line is the connection in use; the spare one leads to a new endpoint
// while the app still runs on the line. The app is the one that works and whose client is lent
// out; next is the one that is to take its place and waits, with its caches filled, until the
// controllers of the app have ended. The client of the app is lent out until next takes its place, even if
// its controllers have ended and next fails.
type machine struct {
	want want

	line, spare line
	knownID     string // learnt at first contact, when the owner knew none

	app, next life
	zombies   int

	// The last failure of an app, kept until a later app is ready.
	failure  *failure
	failures int
	retryAt  time.Time
	misses   int // failures in a row that were the remote's, though it answers its probe

	cleaned bool  // the cleanup steps of a removal are over
	trial   trial // of the credential that is to take the place of the one in use

	jitter    func() float64 // in [0,1)
	nextEpoch func() int64
}

// want is the desired state, reduced to what decisions need.
type want struct {
	stop, paused         bool
	removeBy             time.Time // until when a stop may be put off for cleanup steps; zero for not
	endpoint, credential string
	acceptCredential     bool // though the remote refuses it
	shape                string
	questions            *preflight.Questions // that have to be answered before an app starts
	identity             state.Identity
	failureThreshold     int
	successThreshold     int
	suspicion            state.CrashRecord
}

// life is what the machine knows of one app. It keeps its epoch's number when the app is gone.
type life struct {
	phase    phase
	epoch    int64
	endpoint string // the line that it runs on
	shape    string // what it was built for
	readyAt  time.Time
	waiting  state.Condition // what a starting app waits for
	ended    bool            // it ended by itself, and still has to be stopped
	built    bool            // its graph was built, and has
	steps    int             // this many cleanup steps
}

type phase int

const (
	phaseNone     phase = iota
	phaseStarting       // being built, or its caches fill
	phaseWarm           // ready to take the place of another one
	phaseReady
	phaseYielding // its controllers end, to let another app take its place; its client is still lent out
	phaseYielded  // its controllers have ended; its client is lent out until another app takes its place
	phaseCleaning // its controllers have ended or do so; the modules' cleanup steps run
	phaseStopping // fenced, on its way out
)

// runs reports whether the app can act.
func (l *life) runs() bool { return l.phase != phaseNone && l.phase != phaseStopping }

// lent reports whether the app's client is lent out.
func (l *life) lent() bool { return l.phase == phaseReady || l.yields() }

// yields reports whether the app's controllers end or have ended, so that another app can take its place.
func (l *life) yields() bool { return l.phase == phaseYielding || l.phase == phaseYielded }

// failure is why an app ended by itself.
type failure struct {
	module, reason, message string
	remote                  bool // the remote could not be reached: nobody's failure but its own
}

// The actions that decide asks for.
type action struct {
	kind     actionKind
	epoch    int64  // of the actions on apps
	endpoint string // the line that the app runs on, or that the credential is for

	credential string // of actSwap, actSwapSpare and actTry
}

type actionKind int

const (
	actConnect      actionKind = iota + 1 // open the line
	actDisconnect                         // close the line
	actSwap                               // put a credential under the line
	actConnectSpare                       // open the spare line
	actDropSpare                          // close the spare line
	actSwapSpare                          // put a credential under the spare line
	actTry                                // try a credential on a connection of its own
	actEndTrial                           // end the trial
	actAdopt                              // the spare line takes the place of the line, which is closed or none
	actStart                              // start an app; its runnables may work at once
	actPrepare                            // start an app whose runnables wait for actRelease
	actRelease                            // let an app's runnables work
	actYield                              // end an app's runnables; its client is lent out as before
	actRetire                             // another app takes the place of an app, which only keeps its leases for a while
	actClean                              // end an app's runnables and run its cleanup steps
	actStop                               // fence an app and take it down
	actForget                             // nothing is left to do for this remote
)

// Backoff of failed apps: doubled from retryBase to retryMax, with 20 % jitter either way, and
// forgotten after an app has been healthy for retryReset.
const (
	retryBase  = time.Second
	retryMax   = 2 * time.Minute
	retryReset = 10 * time.Minute
)

// apply takes note of a fact.
func (m *machine) apply(f fact, now time.Time) { f.applyTo(m, now) }

// setShape changes the shape of the desired app. The backoff of a failed app continues, unlike after applyWant.
func (m *machine) setShape(shape string) { m.want.shape = shape }

// applyWant takes in a new desired state. A change that may cure a failed app is tried at once.
func (m *machine) applyWant(w want) {
	if w.endpoint != m.want.endpoint || w.credential != m.want.credential || w.shape != m.want.shape {
		m.failures, m.misses, m.retryAt = 0, 0, time.Time{}
	}
	if w.identity != m.want.identity || w.acceptCredential != m.want.acceptCredential {
		m.trial.retryAt = time.Time{}
	}
	if !w.stop {
		m.cleaned = false
	}
	m.want = w
}

// applyProbe takes note of a probe of one of the lines. A probe with a credential that has been replaced since
// says nothing; neither does the refusal of one that is about to be replaced.
func (m *machine) applyProbe(p probeFact, now time.Time) {
	l := m.lineTo(p.endpoint)
	if l == nil || p.credential != l.credential || p.fatal && m.isUndecided(l, now) {
		return
	}
	if !p.ok {
		m.misses = 0 // it is the probe that says when to go on
	}
	l.applyProbe(p, m.want.failureThreshold, m.want.successThreshold, now)
	if l == &m.line && l.contact == contactLost && m.failure != nil && m.failure.remote {
		m.retryAt = time.Time{} // its return says when; line.proof bounds how often
	}
	if p.ok && m.blocked(l) == nil {
		l.good = l.credential
	}
	if p.ok && m.knownID == "" && !p.isHub && p.holder == "" && m.expects(p.id) {
		m.knownID = p.id
	}
}

// applySurvey takes note of what was found at an endpoint.
func (m *machine) applySurvey(endpoint string, f *preflight.Result) {
	if l := m.lineTo(endpoint); l != nil {
		l.found = f
	}
}

// applyBuilt takes note of how many cleanup steps the modules have.
func (m *machine) applyBuilt(epoch int64, steps int) {
	if l := m.lifeOf(epoch); l != nil {
		l.built, l.steps = true, steps
	}
}

// applyReady takes note that an app has its initial objects.
func (m *machine) applyReady(epoch int64, now time.Time) {
	switch {
	case epoch == m.app.epoch && m.app.phase == phaseStarting:
		m.app.phase = phaseReady
		m.settled(now)
	case epoch == m.next.epoch && m.next.phase == phaseStarting:
		m.next.phase = phaseWarm
	}
}

// settled notes that the app in place works.
func (m *machine) settled(now time.Time) {
	m.app.readyAt, m.app.waiting, m.failure, m.misses = now, state.Condition{}, nil, 0
}

func (m *machine) applyWaiting(epoch int64, f state.Condition) {
	if l := m.lifeOf(epoch); l != nil && l.phase == phaseStarting {
		l.waiting = f
	}
}

// applyEnded takes note that an app ended by itself. It still has to be stopped: it may hold
// connections and goroutines.
func (m *machine) applyEnded(epoch int64, f failure, now time.Time) {
	l := m.lifeOf(epoch)
	if l == nil || !l.runs() || l.ended {
		return
	}
	if l.lent() && now.Sub(l.readyAt) >= retryReset {
		m.failures = 0
	}
	count := &m.failures
	if f.remote {
		count = &m.misses
	}
	delay := min(retryBase<<min(*count, 16), retryMax)
	*count++
	m.retryAt = now.Add(time.Duration(float64(delay) * (0.8 + 0.4*m.jitter())))
	m.failure, l.ended = &f, true
}

// applyYielded takes note that the controllers of an app have ended, so that the next one may take
// its place.
func (m *machine) applyYielded(epoch int64) {
	if epoch == m.app.epoch && m.app.phase == phaseYielding {
		m.app.phase = phaseYielded
	}
}

// applyCleaned takes note that the cleanup steps of a removal are over, one way or the other.
func (m *machine) applyCleaned(epoch int64) {
	if epoch == m.app.epoch && m.app.phase == phaseCleaning {
		m.cleaned = true
	}
}

// applyGone takes note that a stopped app is out of the way.
func (m *machine) applyGone(epoch int64) {
	if l := m.lifeOf(epoch); l != nil && l.phase == phaseStopping {
		l.phase = phaseNone
	}
}

// lifeOf returns the app with that epoch, or nil for one of the past.
func (m *machine) lifeOf(epoch int64) *life {
	switch epoch {
	case m.app.epoch:
		return &m.app
	case m.next.epoch:
		return &m.next
	}
	return nil
}

// lineTo returns the line that leads to the endpoint, or nil.
func (m *machine) lineTo(endpoint string) *line {
	switch {
	case endpoint == "":
		return nil
	case m.line.endpoint == endpoint:
		return &m.line
	case m.spare.endpoint == endpoint:
		return &m.spare
	}
	return nil
}
