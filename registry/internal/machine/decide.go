// SPDX-License-Identifier: Apache-2.0

package machine

import "time"

// Decide returns what to do now and records it as being done. It is called after facts changed
// and when wakeAt has come.
func (m *Machine) Decide(now time.Time) []Action {
	var do actions
	m.endApps(&do, now)
	m.promote(&do, now)
	m.endApps(&do, now) // what was promoted may have to end at once
	m.moveLines(&do, now)
	m.beginApps(&do, now)
	return do
}

type actions []Action

func (do *actions) add(kind ActionKind) { *do = append(*do, Action{Kind: kind}) }

func (do *actions) to(kind ActionKind, l *App) {
	*do = append(*do, Action{Kind: kind, Epoch: l.Epoch, Endpoint: l.endpoint})
}

// endApps stops what runs and should not.
func (m *Machine) endApps(do *actions, now time.Time) {
	if m.App.phase == phaseReady && m.want.Stop && m.mayClean(now) {
		m.App.phase = phaseCleaning
		do.to(Clean, &m.App)
	}
	if m.App.Runs() && m.appMustEnd(now) {
		m.cleaned = m.cleaned || m.App.phase == phaseCleaning && m.want.Stop // there is no second try
		m.App.phase = phaseStopping
		do.to(Stop, &m.App)
	}
	if m.next.Runs() && m.nextMustEnd(now) {
		m.next.phase = phaseStopping
		do.to(Stop, &m.next)
	}
}

// appMustEnd reports whether the app must not run any more. One that works and is not the one that
// is wanted is not meant: another one takes its place.
func (m *Machine) appMustEnd(now time.Time) bool {
	return m.want.Paused || m.App.ended || m.over(now) ||
		!m.Usable(m.ConnectionTo(m.App.endpoint)) || m.replaces(m.ConnectionTo(m.App.endpoint)) ||
		m.Spare.Endpoint != "" && m.Spare.Endpoint == m.want.Endpoint && m.blocked(&m.Spare) != nil ||
		m.App.phase == phaseStarting && !m.fits(&m.App) ||
		m.App.phase == phaseCleaning && !m.want.Stop // its controllers have ended
}

// nextMustEnd reports whether the next app has nothing to wait for. A warm app that a later change has made
// unfit takes the place of an app that can no longer keep it, and a third app is built beside it.
func (m *Machine) nextMustEnd(now time.Time) bool {
	isNeeded := m.next.phase == phaseWarm && m.App.phase != phaseReady
	return m.want.Paused || m.next.ended || m.over(now) || !m.fits(&m.next) && !isNeeded ||
		!m.Usable(m.ConnectionTo(m.next.endpoint)) || m.replaces(m.ConnectionTo(m.next.endpoint)) ||
		m.App.phase == phaseCleaning || m.App.phase == phaseReady && m.fits(&m.App)
}

// fits reports whether an app is what is wanted. An app whose controllers end is not.
func (m *Machine) fits(l *App) bool {
	return l.endpoint == m.want.Endpoint && l.shape == m.want.Shape && !l.yields()
}

// over reports whether the remote is not wanted, and nothing holds its end up any more.
func (m *Machine) over(now time.Time) bool { return m.want.Stop && !m.mayClean(now) }

// mayClean reports whether a removal is worth to be put off, because cleanup steps may yet run: the
// app works, or nothing is known to keep it from working in time. A remote that was never contacted has
// nothing to be cleaned up.
func (m *Machine) mayClean(now time.Time) bool {
	if m.Connection.Contact == contactNone && m.KnownID() == "" {
		return false
	}
	return m.want.Stop && now.Before(m.want.RemoveBy) && !m.cleaned && !m.noSteps() && !m.want.Paused &&
		(m.Failure == nil || m.works()) && m.Connection.Contact != contactLost && m.blocked(&m.Connection) == nil &&
		!now.Before(m.want.CrashRecord.Until)
}

// noSteps reports whether it is known that there are no cleanup steps.
func (m *Machine) noSteps() bool {
	return m.App.built && m.App.steps == 0 && m.App.shape == m.want.Shape
}

// works reports whether the app in place does its work, whatever has failed beside it.
func (m *Machine) works() bool {
	return (m.App.Lent() && m.App.phase != phaseYielded || m.App.phase == phaseCleaning) && !m.App.ended
}

// promote puts the next app in place when the one before is out of the way.
func (m *Machine) promote(do *actions, now time.Time) {
	switch {
	case m.App.phase == phaseYielded && m.next.phase == phaseWarm:
		do.to(Retire, &m.App)
	case m.App.phase == phaseNone && m.next.Runs():
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
		m.settled(now)
	}
}

// adopt puts the spare line in the place of the line.
func (m *Machine) adopt(do *actions) {
	if m.Connection.Endpoint != "" {
		do.add(Disconnect)
	}
	m.Connection, m.Spare = m.Spare, Connection{}
	do.add(Adopt)
}

// moveLines opens, closes and exchanges the connections that no app stands on. An app that works
// keeps its line while the spare one leads to where it is wanted.
func (m *Machine) moveLines(do *actions, now time.Time) {
	target := m.want.Endpoint
	if m.want.Paused || m.over(now) {
		target = ""
	}
	if m.Spare.Endpoint != "" && m.isFree(&m.Spare) && (m.Spare.Endpoint != target || m.Connection.Endpoint == target) {
		m.Spare = Connection{}
		do.add(DropSpare)
	}
	switch {
	case m.Connection.Endpoint == target:
	case m.isFree(&m.Connection):
		m.moveLine(do, target)
	case m.App.Lent() && m.Spare.Endpoint == "" && target != "":
		m.Spare = Connection{Endpoint: target, Credential: m.want.Credential}
		do.add(ConnectSpare)
	}
	m.moveCredential(do, now)
	if m.over(now) && m.Connection.Endpoint == "" && m.Spare.Endpoint == "" && m.App.phase == phaseNone && m.next.phase == phaseNone {
		do.add(Forget)
	}
}

// isFree reports whether no app stands on a line.
func (m *Machine) isFree(l *Connection) bool {
	return (m.App.phase == phaseNone || m.App.endpoint != l.Endpoint) &&
		(m.next.phase == phaseNone || m.next.endpoint != l.Endpoint)
}

func (m *Machine) moveLine(do *actions, target string) {
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

// beginApps starts an app, or the one that is to take its place, or lets it do so.
func (m *Machine) beginApps(do *actions, now time.Time) {
	switch {
	case m.App.phase == phaseNone && m.next.phase == phaseNone:
		if m.Connection.Endpoint == m.want.Endpoint && m.mayStart(now) {
			m.App = m.newLife()
			do.to(Start, &m.App)
		}
	case m.App.Lent() && m.next.phase == phaseNone:
		if !m.fits(&m.App) && m.mayStart(now) {
			m.next = m.newLife()
			do.to(Prepare, &m.next)
		}
	case m.App.phase == phaseReady && m.next.phase == phaseWarm:
		m.App.phase = phaseYielding
		do.to(Yield, &m.App)
	}
}

func (m *Machine) newLife() App {
	return App{phase: phaseStarting, Epoch: m.NextEpoch(), endpoint: m.want.Endpoint, shape: m.want.Shape}
}

// mayStart reports whether an app for what is wanted may start now.
func (m *Machine) mayStart(now time.Time) bool {
	return m.mayStartLater(now) && !now.Before(m.startsAt())
}

// mayStartLater reports whether nothing but time keeps an app from starting.
func (m *Machine) mayStartLater(now time.Time) bool {
	l := m.ConnectionTo(m.want.Endpoint)
	return l != nil && m.Usable(l) && !m.replaces(l) && l.Surveyed(m.want.Questions) && !m.want.Paused && !m.over(now) && m.Zombies < MaxZombies
}

// MaxZombies is how many apps of one remote may be left behind before no other is started: each holds what
// it held, and the next one would mostly end as they did.
const MaxZombies = 3

// startsAt returns the time before which no app is started: that of the next try after a failure,
// or the end of a quarantine.
func (m *Machine) startsAt() time.Time {
	if m.want.CrashRecord.Until.After(m.retryAt) {
		return m.want.CrashRecord.Until
	}
	return m.retryAt
}

// WakeAt returns when decide must be called again though no fact has changed; zero for never.
func (m *Machine) WakeAt(now time.Time) time.Time {
	var at time.Time
	waits := m.App.phase == phaseNone || m.App.Lent() && !m.fits(&m.App)
	if waits && m.next.phase == phaseNone && m.mayStartLater(now) {
		at = m.startsAt() // in the future, or decide had started the app
	}
	if t := &m.Trial; t.credential != "" && !t.underway && !t.Accepted && (at.IsZero() || t.retryAt.Before(at)) && t.retryAt.After(now) {
		at = t.retryAt
	}
	if m.mayClean(now) && (at.IsZero() || m.want.RemoveBy.Before(at)) {
		at = m.want.RemoveBy
	}
	return at
}
