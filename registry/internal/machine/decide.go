// SPDX-License-Identifier: Apache-2.0

package machine

import "time"

// Decide returns the actions that are due and records them as started. It must be called after each fact, and at
// WakeAt.
func (m *Machine) Decide(now time.Time) []Action {
	var do actions
	m.endApps(&do, now)
	m.promote(&do)
	m.endApps(&do, now) // The promoted app may have to end at once.
	m.moveConnections(&do, now)
	m.beginApps(&do, now)
	return do
}

type actions []Action

func (do *actions) add(kind ActionKind) { *do = append(*do, Action{Kind: kind}) }

func (do *actions) to(kind ActionKind, a *App) {
	*do = append(*do, Action{Kind: kind, Epoch: a.Epoch, Endpoint: a.endpoint})
}

func (m *Machine) endApps(do *actions, now time.Time) {
	if m.App.phase == phaseReady && m.want.Stop && m.mayClean(now) {
		m.App.phase = phaseCleaning
		do.to(Clean, &m.App)
	}
	if m.App.Runs() && m.appMustEnd(now) {
		m.cleaned = m.cleaned || m.App.phase == phaseCleaning && m.want.Stop // cleanup steps are not retried
		m.App.phase = phaseStopping
		do.to(Stop, &m.App)
	}
	if m.want.Warm {
		m.next.heir = false // The app that has yielded ends.
	}
	if m.next.Runs() && m.nextMustEnd(now) {
		m.next.phase = phaseStopping
		do.to(Stop, &m.next)
	}
}

// appMustEnd is false for a ready app of another shape or endpoint: it runs until the next app replaces it.
func (m *Machine) appMustEnd(now time.Time) bool {
	return m.want.Paused || m.want.Warm || m.App.ended || m.over(now) ||
		!m.Usable(m.ConnectionTo(m.App.endpoint)) || m.replaces(m.ConnectionTo(m.App.endpoint)) ||
		m.Spare.Endpoint != "" && m.Spare.Endpoint == m.want.Endpoint && m.blocked(&m.Spare) != nil ||
		m.App.phase == phaseStarting && !m.fits(&m.App) ||
		m.App.phase == phaseCleaning && !m.want.Stop // its controllers have ended
}

// nextMustEnd: the next app cannot or need not replace the running app. A warm app to which the running app has yielded
// still replaces it, and a third is prepared then. Any other unfit app ends, also that of a warm remote that changes
// when it is to work.
func (m *Machine) nextMustEnd(now time.Time) bool {
	isNeeded := m.next.phase == phaseWarm && m.next.heir
	return m.want.Paused || m.next.ended || m.over(now) || !m.fits(&m.next) && !isNeeded ||
		!m.Usable(m.ConnectionTo(m.next.endpoint)) || m.replaces(m.ConnectionTo(m.next.endpoint)) ||
		m.App.phase == phaseCleaning || m.App.phase == phaseReady && m.fits(&m.App)
}

// fits: the desired endpoint and shape, and the controllers do not end.
func (m *Machine) fits(a *App) bool {
	return a.endpoint == m.want.Endpoint && a.shape == m.want.Shape && !a.yields()
}

// over: nothing delays the removal.
func (m *Machine) over(now time.Time) bool { return m.want.Stop && !m.mayClean(now) }

// mayClean delays a removal while cleanup steps may still run: the app works, or no known failure keeps it from working
// in time. A remote that was never contacted, or only identified, needs no cleanup, and a warm app may do none.
func (m *Machine) mayClean(now time.Time) bool {
	if m.Connection.Contact == contactNone && m.KnownID() == "" || m.want.Warm || m.want.IdentifyOnly && !m.App.Runs() {
		return false
	}
	return m.want.Stop && now.Before(m.want.RemoveBy) && !m.cleaned && !m.noSteps() && !m.want.Paused &&
		(m.Failure == nil || m.works()) && m.Connection.Contact != contactLost && m.blocked(&m.Connection) == nil &&
		!now.Before(m.want.CrashRecord.Until)
}

func (m *Machine) noSteps() bool {
	return m.App.built && m.App.steps == 0 && m.App.shape == m.want.Shape
}

// A failure of the next app does not matter to works.
func (m *Machine) works() bool {
	return (m.App.Lent() && m.App.phase != phaseYielded || m.App.phase == phaseCleaning) && !m.App.ended
}

// promote replaces the running app once it has yielded or gone. The app of a warm remote stays next, also while a
// remote that is to work has to be identified first.
func (m *Machine) promote(do *actions) {
	switch {
	case m.want.Warm:
		if m.next.phase == phaseWarm {
			m.settled(&m.next)
		}
		return
	case m.App.phase == phaseYielded && m.next.phase == phaseWarm:
		do.to(Retire, &m.App)
	case m.App.phase == phaseNone && m.next.Runs() && (!m.want.IdentifyOnly || m.next.heir):
	default:
		return
	}
	if m.next.endpoint != m.Connection.Endpoint {
		m.adopt(do)
	}
	m.App, m.next = m.next, App{}
	do.to(Release, &m.App)
	if m.App.phase == phaseWarm {
		m.App.phase = phaseReady
		m.settled(&m.App)
	}
}

func (m *Machine) adopt(do *actions) {
	if m.Connection.Endpoint != "" {
		do.add(Disconnect)
	}
	m.Connection, m.Spare = m.Spare, Connection{}
	do.add(Adopt)
}

// moveConnections moves connections that no app uses. A working app keeps its own while the spare leads to the desired
// endpoint.
func (m *Machine) moveConnections(do *actions, now time.Time) {
	target := m.want.Endpoint
	isOver := m.over(now) // A remote without a connection is no longer blocked.
	if m.want.Paused || isOver {
		target = ""
	}
	if m.Spare.Endpoint != "" && m.isFree(&m.Spare) && (m.Spare.Endpoint != target || m.Connection.Endpoint == target) {
		m.Spare = Connection{}
		do.add(DropSpare)
	}
	switch {
	case m.Connection.Endpoint == target:
	case m.isFree(&m.Connection):
		m.moveConnection(do, target)
	case m.App.Lent() && m.Spare.Endpoint == "" && target != "":
		m.Spare = Connection{Endpoint: target, Credential: m.want.Credential}
		do.add(ConnectSpare)
	}
	m.moveCredential(do, now)
	if isOver && m.Connection.Endpoint == "" && m.Spare.Endpoint == "" && m.App.phase == phaseNone && m.next.phase == phaseNone {
		do.add(Forget)
	}
}

func (m *Machine) isFree(c *Connection) bool {
	return (m.App.phase == phaseNone || m.App.endpoint != c.Endpoint) &&
		(m.next.phase == phaseNone || m.next.endpoint != c.Endpoint)
}

// moveConnection closes the connection for an empty target.
func (m *Machine) moveConnection(do *actions, target string) {
	if target != "" && m.Spare.Endpoint == target {
		m.adopt(do)
		return
	}
	if m.Connection.Endpoint != "" {
		m.Connection = Connection{}
		do.add(Disconnect)
	}
	if target != "" {
		m.Connection = Connection{Endpoint: target, Credential: m.want.Credential}
		do.add(Connect)
	}
}

// beginApps starts an app, prepares the next, or tells the running one to yield to a warm next one.
func (m *Machine) beginApps(do *actions, now time.Time) {
	switch {
	case m.App.phase == phaseNone && m.next.phase == phaseNone:
		if m.Connection.Endpoint == m.want.Endpoint && m.mayStart(now) {
			m.startFirst(do)
		}
	case m.App.Lent() && m.next.phase == phaseNone:
		if !m.fits(&m.App) && m.mayStart(now) {
			m.next = m.newApp()
			do.to(Prepare, &m.next)
		}
	case m.App.phase == phaseReady && m.next.phase == phaseWarm:
		m.App.phase, m.next.heir = phaseYielding, true
		do.to(Yield, &m.App)
	}
}

func (m *Machine) startFirst(do *actions) {
	if m.want.Warm {
		m.next = m.newApp()
		do.to(Prepare, &m.next)
		return
	}
	m.App = m.newApp()
	do.to(Start, &m.App)
}

func (m *Machine) newApp() App {
	return App{
		phase: phaseStarting, Epoch: m.NextEpoch(), endpoint: m.want.Endpoint, shape: m.want.Shape, early: m.want.Warm,
	}
}

func (m *Machine) mayStart(now time.Time) bool {
	return m.mayStartLater(now) && !now.Before(m.startsAt())
}

// mayStartLater: as soon as startsAt has passed.
func (m *Machine) mayStartLater(now time.Time) bool {
	c := m.ConnectionTo(m.want.Endpoint)
	return c != nil && m.Usable(c) && !m.replaces(c) && c.Preflighted(m.want.Questions) &&
		!m.want.Paused && !m.want.IdentifyOnly && !m.over(now) && m.Zombies < MaxZombies
}

// MaxZombies of one remote: with as many no further app is started. Each keeps memory and goroutines, and the next app
// would probably become one, too.
const MaxZombies = 3

// startsAt is the end of a backoff, or of a quarantine.
func (m *Machine) startsAt() time.Time {
	if m.want.CrashRecord.Until.After(m.retryAt) {
		return m.want.CrashRecord.Until
	}
	return m.retryAt
}

// WakeAt returns when Decide must be called again without a new fact; zero for never.
func (m *Machine) WakeAt(now time.Time) time.Time {
	var at time.Time
	waits := m.App.phase == phaseNone || m.App.Lent() && !m.fits(&m.App)
	if waits && m.next.phase == phaseNone && m.mayStartLater(now) {
		at = m.startsAt() // in the future, or Decide would have started the app
	}
	if t := &m.Trial; t.credential != "" && !t.underway && !t.Accepted && (at.IsZero() || t.retryAt.Before(at)) && t.retryAt.After(now) {
		at = t.retryAt
	}
	if m.mayClean(now) && (at.IsZero() || m.want.RemoveBy.Before(at)) {
		at = m.want.RemoveBy
	}
	return at
}
