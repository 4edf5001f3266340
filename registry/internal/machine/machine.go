// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	"github.com/clusterfx/clusterfx/registry/internal/preflight"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Machine decides what happens to one remote. It is pure: facts come in through its apply
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
type Machine struct {
	want Want

	Connection, Spare Connection
	knownID           string // learnt at first contact, when the owner knew none

	App, next App
	Zombies   int

	// The last failure of an app, kept until a later app is ready.
	Failure  *Failure
	Failures int
	retryAt  time.Time
	misses   int // failures in a row that were the remote's, though it answers its probe

	cleaned bool  // the cleanup steps of a removal are over
	Trial   trial // of the credential that is to take the place of the one in use

	Jitter    func() float64 // in [0,1)
	NextEpoch func() int64
}

// Want is the desired state, reduced to what decisions need.
type Want struct {
	Stop, Paused         bool
	RemoveBy             time.Time // until when a stop may be put off for cleanup steps; zero for not
	Endpoint, Credential string
	AcceptCredential     bool // though the remote refuses it
	Shape                string
	Questions            *preflight.Questions // that have to be answered before an app starts
	Identity             state.Identity
	FailureThreshold     int
	SuccessThreshold     int
	CrashRecord          state.CrashRecord
}

// App is what the machine knows of one app. It keeps its epoch's number when the app is gone.
type App struct {
	phase    phase
	Epoch    int64
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

// Runs reports whether the app can act.
func (l *App) Runs() bool { return l.phase != phaseNone && l.phase != phaseStopping }

// Lent reports whether the app's client is lent out.
func (l *App) Lent() bool { return l.phase == phaseReady || l.yields() }

// yields reports whether the app's controllers end or have ended, so that another app can take its place.
func (l *App) yields() bool { return l.phase == phaseYielding || l.phase == phaseYielded }

// Failure is why an app ended by itself.
type Failure struct {
	Module, Reason, Message string
	OfRemote                bool // the remote could not be reached: nobody's failure but its own
}

// The actions that decide asks for.
type Action struct {
	Kind     ActionKind
	Epoch    int64  // of the actions on apps
	Endpoint string // the line that the app runs on, or that the credential is for

	Credential string // of actSwap, actSwapSpare and actTry
}

type ActionKind int

const (
	Connect      ActionKind = iota + 1 // open the line
	Disconnect                         // close the line
	Swap                               // put a credential under the line
	ConnectSpare                       // open the spare line
	DropSpare                          // close the spare line
	SwapSpare                          // put a credential under the spare line
	Try                                // try a credential on a connection of its own
	EndTrial                           // end the trial
	Adopt                              // the spare line takes the place of the line, which is closed or none
	Start                              // start an app; its runnables may work at once
	Prepare                            // start an app whose runnables wait for actRelease
	Release                            // let an app's runnables work
	Yield                              // end an app's runnables; its client is lent out as before
	Retire                             // another app takes the place of an app, which only keeps its leases for a while
	Clean                              // end an app's runnables and run its cleanup steps
	Stop                               // fence an app and take it down
	Forget                             // nothing is left to do for this remote
)

// Backoff of failed apps: doubled from retryBase to retryMax, with 20 % jitter either way, and
// forgotten after an app has been healthy for retryReset.
const (
	RetryBase  = time.Second
	RetryMax   = 2 * time.Minute
	RetryReset = 10 * time.Minute
)

// Apply takes note of a fact.
func (m *Machine) Apply(f Fact, now time.Time) { f.applyTo(m, now) }

// SetShape changes the shape of the desired app. The backoff of a failed app continues, unlike after applyWant.
func (m *Machine) SetShape(shape string) { m.want.Shape = shape }

// ApplyWant takes in a new desired state. A change that may cure a failed app is tried at once.
func (m *Machine) ApplyWant(w Want) {
	if w.Endpoint != m.want.Endpoint || w.Credential != m.want.Credential || w.Shape != m.want.Shape {
		m.Failures, m.misses, m.retryAt = 0, 0, time.Time{}
	}
	if w.Identity != m.want.Identity || w.AcceptCredential != m.want.AcceptCredential {
		m.Trial.retryAt = time.Time{}
	}
	if !w.Stop {
		m.cleaned = false
	}
	m.want = w
}

// applyProbe takes note of a probe of one of the lines. A probe with a credential that has been replaced since
// says nothing; neither does the refusal of one that is about to be replaced.
func (m *Machine) applyProbe(p Probed, now time.Time) {
	l := m.ConnectionTo(p.Endpoint)
	if l == nil || p.Credential != l.Credential || p.Fatal && m.isUndecided(l, now) {
		return
	}
	if !p.OK {
		m.misses = 0 // it is the probe that says when to go on
	}
	l.applyProbe(p, m.want.FailureThreshold, m.want.SuccessThreshold, now)
	if l == &m.Connection && l.Contact == contactLost && m.Failure != nil && m.Failure.OfRemote {
		m.retryAt = time.Time{} // its return says when; line.proof bounds how often
	}
	if p.OK && m.blocked(l) == nil {
		l.Good = l.Credential
	}
	if p.OK && m.knownID == "" && !p.IsHub && p.Holder == "" && m.Expects(p.ID) {
		m.knownID = p.ID
	}
}

// applySurvey takes note of what was found at an endpoint.
func (m *Machine) applySurvey(endpoint string, f *preflight.Result) {
	if l := m.ConnectionTo(endpoint); l != nil {
		l.Found = f
	}
}

// applyBuilt takes note of how many cleanup steps the modules have.
func (m *Machine) applyBuilt(epoch int64, steps int) {
	if l := m.lifeOf(epoch); l != nil {
		l.built, l.steps = true, steps
	}
}

// applyReady takes note that an app has its initial objects.
func (m *Machine) applyReady(epoch int64, now time.Time) {
	switch {
	case epoch == m.App.Epoch && m.App.phase == phaseStarting:
		m.App.phase = phaseReady
		m.settled(now)
	case epoch == m.next.Epoch && m.next.phase == phaseStarting:
		m.next.phase = phaseWarm
	}
}

// settled notes that the app in place works.
func (m *Machine) settled(now time.Time) {
	m.App.readyAt, m.App.waiting, m.Failure, m.misses = now, state.Condition{}, nil, 0
}

func (m *Machine) applyWaiting(epoch int64, f state.Condition) {
	if l := m.lifeOf(epoch); l != nil && l.phase == phaseStarting {
		l.waiting = f
	}
}

// applyEnded takes note that an app ended by itself. It still has to be stopped: it may hold
// connections and goroutines.
func (m *Machine) applyEnded(epoch int64, f Failure, now time.Time) {
	l := m.lifeOf(epoch)
	if l == nil || !l.Runs() || l.ended {
		return
	}
	if l.Lent() && now.Sub(l.readyAt) >= RetryReset {
		m.Failures = 0
	}
	count := &m.Failures
	if f.OfRemote {
		count = &m.misses
	}
	delay := min(RetryBase<<min(*count, 16), RetryMax)
	*count++
	m.retryAt = now.Add(time.Duration(float64(delay) * (0.8 + 0.4*m.Jitter())))
	m.Failure, l.ended = &f, true
}

// applyYielded takes note that the controllers of an app have ended, so that the next one may take
// its place.
func (m *Machine) applyYielded(epoch int64) {
	if epoch == m.App.Epoch && m.App.phase == phaseYielding {
		m.App.phase = phaseYielded
	}
}

// applyCleaned takes note that the cleanup steps of a removal are over, one way or the other.
func (m *Machine) applyCleaned(epoch int64) {
	if epoch == m.App.Epoch && m.App.phase == phaseCleaning {
		m.cleaned = true
	}
}

// applyGone takes note that a stopped app is out of the way.
func (m *Machine) applyGone(epoch int64) {
	if l := m.lifeOf(epoch); l != nil && l.phase == phaseStopping {
		l.phase = phaseNone
	}
}

// lifeOf returns the app with that epoch, or nil for one of the past.
func (m *Machine) lifeOf(epoch int64) *App {
	switch epoch {
	case m.App.Epoch:
		return &m.App
	case m.next.Epoch:
		return &m.next
	}
	return nil
}

// ConnectionTo returns the line that leads to the endpoint, or nil.
func (m *Machine) ConnectionTo(endpoint string) *Connection {
	switch {
	case endpoint == "":
		return nil
	case m.Connection.Endpoint == endpoint:
		return &m.Connection
	case m.Spare.Endpoint == endpoint:
		return &m.Spare
	}
	return nil
}
