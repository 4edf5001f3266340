// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"time"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Machine is the state machine of one remote. It is pure: Apply records a fact and its time, and Decide compares the
// facts with the desired state.
//
// Two connections and two apps let a new one replace the old one without a gap. Connection is in use; Spare leads to a
// new endpoint while App, the running app, still uses Connection. next waits with filled caches until the controllers
// of App have ended. The client of App is lent out until next replaces it, even if the controllers of App have ended
// and next fails. A warm remote has no running app, and next waits.
type Machine struct {
	want Want

	Connection, Spare Connection
	knownID           string // learned at first contact, if the desired state has no id

	App, next App
	Zombies   int

	// The last failure of an app, kept until a later app is ready.
	Failure  *Failure
	Failures int
	retryAt  time.Time
	misses   int // consecutive failures because of the remote, although its probes succeed
	refusals int // consecutive failures of a warm remote's apps because the gate has refused writes

	cleaned bool  // the cleanup steps of a removal have finished
	Trial   trial // of the credential that may replace the credential in use

	Jitter    func() float64 // in [0,1)
	NextEpoch func() int64
}

// Want is the part of the desired state that decisions need.
type Want struct {
	Stop, Paused         bool
	Warm                 bool      // build the app, and keep its runnables waiting
	IdentifyOnly         bool      // start no app
	RemoveBy             time.Time // until when cleanup steps may delay a stop; zero for no delay
	Endpoint, Credential string
	AcceptCredential     bool // use the credential although the remote refuses it
	Shape                string
	Questions            *Questions // of the preflight that must finish before an app starts
	Identity             state.Identity
	FailureThreshold     int
	SuccessThreshold     int
	CrashRecord          state.CrashRecord
}

// App is the state of one app. It keeps its epoch when it has gone.
type App struct {
	phase    phase
	Epoch    int64
	endpoint string          // of the connection that it uses
	shape    string          // the desired shape when it was built
	readyAt  time.Time       // or warm, which came first
	waiting  state.Condition // why a starting app waits
	ended    bool            // it ended by itself, and must still be stopped
	built    bool            // its graph was built
	steps    int             // the number of its cleanup steps, once it is built
	early    bool            // it was started while the remote was to be warm
	heir     bool            // of the next app: the running app has yielded to it
}

type phase int

const (
	phaseNone     phase = iota
	phaseStarting       // it is being built, or its caches fill
	phaseWarm           // ready to replace the running app
	phaseReady
	phaseYielding // its controllers end, so that the next app can replace it; its client is still lent out
	phaseYielded  // its controllers have ended; its client is lent out until the next app replaces it
	phaseCleaning // its controllers end or have ended; the modules' cleanup steps run
	phaseStopping // fenced, and being stopped
)

// Runs reports whether the app exists and is not being stopped.
func (a *App) Runs() bool { return a.phase != phaseNone && a.phase != phaseStopping }

// Lent reports whether the app's client is lent out.
func (a *App) Lent() bool { return a.phase == phaseReady || a.yields() }

// yields: the controllers end or have ended.
func (a *App) yields() bool { return a.phase == phaseYielding || a.phase == phaseYielded }

// Latest returns the app that a status describes: the next app if the running one has gone before it was started, as in
// a warm remote, otherwise the running app.
func (m *Machine) Latest() *App {
	if m.App.phase == phaseNone && m.next.Epoch > m.App.Epoch {
		return &m.next
	}
	return &m.App
}

// IsWarm reports whether the app is built, has its objects, and waits, and the app before it has ended.
func (m *Machine) IsWarm() bool {
	return m.want.Warm && m.App.phase == phaseNone && m.next.phase == phaseWarm
}

// Failure is why an app ended by itself.
type Failure struct {
	Module, Reason, Message string
	Problem                 state.Problem // for advice that is not in Message
	OfRemote                bool          // the app could not reach the remote; neither the app nor its modules caused the failure
}

// Action is an action that Decide has decided on. The registry carries it out.
type Action struct {
	Kind     ActionKind
	Epoch    int64  // of the actions on apps
	Endpoint string // of the connection that the app uses, or that the credential is for

	Credential string // of Swap, SwapSpare and Try
}

// ActionKind is the kind of an Action.
type ActionKind int

// The actions on connections, credentials and apps.
const (
	Connect      ActionKind = iota + 1 // open the connection
	Disconnect                         // close the connection
	Swap                               // replace the credential of the connection
	ConnectSpare                       // open the spare connection
	DropSpare                          // close the spare connection
	SwapSpare                          // replace the credential of the spare connection
	Try                                // try a credential on a connection of its own
	EndTrial                           // end the trial
	Adopt                              // the spare connection becomes the connection, which is closed or was never open
	Start                              // start an app; its runnables may work at once
	Prepare                            // start an app whose runnables wait for Release
	Release                            // let an app's runnables work
	Yield                              // end an app's runnables; its client remains lent out
	Retire                             // the next app replaces an app, which keeps only its leases for a while
	Clean                              // end an app's runnables and run its cleanup steps
	Stop                               // fence and stop an app
	Forget                             // nothing is left to do for this remote
)

// Apply records a fact.
func (m *Machine) Apply(f Fact, now time.Time) { f.applyTo(m, now) }

// SetShape changes the shape of the desired app. Unlike ApplyWant, it keeps the backoff.
func (m *Machine) SetShape(shape string) { m.want.Shape = shape }

// ApplyWant replaces the desired state. A change that may fix a failed app ends its backoff, as does the end of Warm: a
// warm app may have failed because it could not write.
func (m *Machine) ApplyWant(w Want) {
	if m.want.Warm && !w.Warm {
		m.Failures, m.misses, m.refusals, m.retryAt, m.Failure = 0, 0, 0, time.Time{}, nil
	}
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

// applyProbe ignores a probe with a replaced credential, and the refusal of one that is about to be replaced.
func (m *Machine) applyProbe(p Probed, now time.Time) {
	c := m.ConnectionTo(p.Endpoint)
	if c == nil || p.Credential != c.Credential || p.Fatal && m.isUndecided(c, now) {
		return
	}
	if !p.OK {
		m.misses = 0 // The next successful probe decides when the app starts again.
	}
	c.applyProbe(p, m.want.FailureThreshold, m.want.SuccessThreshold, now)
	if c == &m.Connection && c.Contact == contactLost && m.Failure != nil && m.Failure.OfRemote {
		m.retryAt = time.Time{} // The end of the outage decides when; Connection.proof limits how often.
	}
	if p.OK && m.blocked(c) == nil {
		c.Good = c.Credential
	}
	if p.OK && m.knownID == "" && !p.IsHub && p.Holder == "" && m.Expects(p.ID) {
		m.knownID = p.ID
	}
}

func (m *Machine) applyPreflight(endpoint string, f *PreflightResult) {
	if c := m.ConnectionTo(endpoint); c != nil {
		c.Found = f
	}
}

func (m *Machine) applyBuilt(epoch int64, steps int) {
	if a := m.appOf(epoch); a != nil {
		a.built, a.steps = true, steps
	}
}

func (m *Machine) applyReady(epoch int64, now time.Time) {
	switch {
	case epoch == m.App.Epoch && m.App.phase == phaseStarting:
		m.App.phase, m.App.readyAt = phaseReady, now
		m.settled(&m.App)
	case epoch == m.next.Epoch && m.next.phase == phaseStarting:
		m.next.phase, m.next.readyAt = phaseWarm, now
	}
}

// settled: the running app is ready, or that of a warm remote waits.
func (m *Machine) settled(a *App) {
	a.waiting, m.Failure, m.misses, m.refusals = state.Condition{}, nil, 0, 0
}

func (m *Machine) applyWaiting(epoch int64, f state.Condition) {
	if a := m.appOf(epoch); a != nil && a.phase == phaseStarting {
		a.waiting = f
	}
}

// applyEnded sets the time of the next start. The app must still be stopped: it may hold connections and goroutines.
func (m *Machine) applyEnded(f AppEnded, now time.Time) {
	a := m.appOf(f.Epoch)
	if a == nil || !a.Runs() || a.ended {
		return
	}
	a.ended = true
	isRefused := f.Refused && a.early
	if isRefused && !m.want.Warm {
		return // The write may have been refused before the remote was to work: the next app starts at once.
	}
	if (a.Lent() || a.phase == phaseWarm) && now.Sub(a.readyAt) >= RetryReset {
		m.Failures = 0
	}
	count := &m.Failures
	switch {
	case isRefused:
		count = &m.refusals
	case f.Why.OfRemote:
		count = &m.misses
	}
	delay := Backoff(*count, m.Jitter())
	*count++
	m.retryAt = now.Add(delay)
	m.Failure = &f.Why
}

func (m *Machine) applyYielded(epoch int64) {
	if epoch == m.App.Epoch && m.App.phase == phaseYielding {
		m.App.phase = phaseYielded
	}
}

func (m *Machine) applyCleaned(epoch int64) {
	if epoch == m.App.Epoch && m.App.phase == phaseCleaning {
		m.cleaned = true
	}
}

func (m *Machine) applyGone(epoch int64) {
	if a := m.appOf(epoch); a != nil && a.phase == phaseStopping {
		a.phase = phaseNone
	}
}

// appOf returns nil for an app that has gone.
func (m *Machine) appOf(epoch int64) *App {
	switch epoch {
	case m.App.Epoch:
		return &m.App
	case m.next.Epoch:
		return &m.next
	}
	return nil
}

// ConnectionTo returns the connection that leads to an endpoint, or nil.
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
