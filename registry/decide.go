// SPDX-License-Identifier: Apache-2.0

package registry

import "time"

// decide returns what to do now and records it as being done. It is called after facts changed
// and when wakeAt has come.
func (m *machine) decide(now time.Time) []action {
	var do actions
	m.endApps(&do, now)
	m.promote(&do, now)
	m.endApps(&do, now) // what was promoted may have to end at once
	m.moveLines(&do, now)
	m.beginApps(&do, now)
	return do
}

type actions []action

func (do *actions) add(kind actionKind) { *do = append(*do, action{kind: kind}) }

func (do *actions) to(kind actionKind, l *life) {
	*do = append(*do, action{kind: kind, epoch: l.epoch, endpoint: l.endpoint})
}

// endApps stops what runs and should not.
func (m *machine) endApps(do *actions, now time.Time) {
	if m.app.phase == phaseReady && m.want.stop && m.mayClean(now) {
		m.app.phase = phaseCleaning
		do.to(actClean, &m.app)
	}
	if m.app.runs() && m.appMustEnd(now) {
		m.cleaned = m.cleaned || m.app.phase == phaseCleaning && m.want.stop // there is no second try
		m.app.phase = phaseStopping
		do.to(actStop, &m.app)
	}
	if m.next.runs() && m.nextMustEnd(now) {
		m.next.phase = phaseStopping
		do.to(actStop, &m.next)
	}
}

// appMustEnd reports whether the app must not run any more. One that works and is not the one that
// is wanted is not meant: another one takes its place.
func (m *machine) appMustEnd(now time.Time) bool {
	return m.want.paused || m.app.ended || m.over(now) ||
		!m.usable(m.lineTo(m.app.endpoint)) || m.replaces(m.lineTo(m.app.endpoint)) ||
		m.spare.endpoint != "" && m.spare.endpoint == m.want.endpoint && m.blocked(&m.spare) != nil ||
		m.app.phase == phaseStarting && !m.fits(&m.app) ||
		m.app.phase == phaseCleaning && !m.want.stop // its controllers have ended
}

// nextMustEnd reports whether the next app has nothing to wait for. A warm app that a later change has made
// unfit takes the place of an app that can no longer keep it, and a third app is built beside it.
func (m *machine) nextMustEnd(now time.Time) bool {
	isNeeded := m.next.phase == phaseWarm && m.app.phase != phaseReady
	return m.want.paused || m.next.ended || m.over(now) || !m.fits(&m.next) && !isNeeded ||
		!m.usable(m.lineTo(m.next.endpoint)) || m.replaces(m.lineTo(m.next.endpoint)) ||
		m.app.phase == phaseCleaning || m.app.phase == phaseReady && m.fits(&m.app)
}

// fits reports whether an app is what is wanted. An app whose controllers end is not.
func (m *machine) fits(l *life) bool {
	return l.endpoint == m.want.endpoint && l.shape == m.want.shape && !l.yields()
}

// over reports whether the remote is not wanted, and nothing holds its end up any more.
func (m *machine) over(now time.Time) bool { return m.want.stop && !m.mayClean(now) }

// mayClean reports whether a removal is worth to be put off, because cleanup steps may yet run: the
// app works, or nothing is known to keep it from working in time. A remote that was never contacted has
// nothing to be cleaned up.
func (m *machine) mayClean(now time.Time) bool {
	if m.line.contact == contactNone && m.known() == "" {
		return false
	}
	return m.want.stop && now.Before(m.want.removeBy) && !m.cleaned && !m.noSteps() && !m.want.paused &&
		(m.failure == nil || m.works()) && m.line.contact != contactLost && m.blocked(&m.line) == nil &&
		!now.Before(m.want.suspicion.Until)
}

// noSteps reports whether it is known that there are no cleanup steps.
func (m *machine) noSteps() bool {
	return m.app.built && m.app.steps == 0 && m.app.shape == m.want.shape
}

// works reports whether the app in place does its work, whatever has failed beside it.
func (m *machine) works() bool {
	return (m.app.lent() && m.app.phase != phaseYielded || m.app.phase == phaseCleaning) && !m.app.ended
}

// promote puts the next app in place when the one before is out of the way.
func (m *machine) promote(do *actions, now time.Time) {
	switch {
	case m.app.phase == phaseYielded && m.next.phase == phaseWarm:
		do.to(actRetire, &m.app)
	case m.app.phase == phaseNone && m.next.runs():
	default:
		return
	}
	if m.next.endpoint != m.line.endpoint {
		m.adopt(do)
	}
	m.app, m.next = m.next, life{}
	do.to(actRelease, &m.app)
	if m.app.phase == phaseWarm {
		m.app.phase = phaseReady
		m.settled(now)
	}
}

// adopt puts the spare line in the place of the line.
func (m *machine) adopt(do *actions) {
	if m.line.endpoint != "" {
		do.add(actDisconnect)
	}
	m.line, m.spare = m.spare, line{}
	do.add(actAdopt)
}

// moveLines opens, closes and exchanges the connections that no app stands on. An app that works
// keeps its line while the spare one leads to where it is wanted.
func (m *machine) moveLines(do *actions, now time.Time) {
	target := m.want.endpoint
	if m.want.paused || m.over(now) {
		target = ""
	}
	if m.spare.endpoint != "" && m.isFree(&m.spare) && (m.spare.endpoint != target || m.line.endpoint == target) {
		m.spare = line{}
		do.add(actDropSpare)
	}
	switch {
	case m.line.endpoint == target:
	case m.isFree(&m.line):
		m.moveLine(do, target)
	case m.app.lent() && m.spare.endpoint == "" && target != "":
		m.spare = line{endpoint: target, credential: m.want.credential}
		do.add(actConnectSpare)
	}
	m.moveCredential(do, now)
	if m.over(now) && m.line.endpoint == "" && m.spare.endpoint == "" && m.app.phase == phaseNone && m.next.phase == phaseNone {
		do.add(actForget)
	}
}

// isFree reports whether no app stands on a line.
func (m *machine) isFree(l *line) bool {
	return (m.app.phase == phaseNone || m.app.endpoint != l.endpoint) &&
		(m.next.phase == phaseNone || m.next.endpoint != l.endpoint)
}

func (m *machine) moveLine(do *actions, target string) {
	if target != "" && m.spare.endpoint == target {
		m.adopt(do)
		return
	}
	if m.line.endpoint != "" {
		m.line = line{}
		do.add(actDisconnect)
	}
	if target != "" {
		m.line = line{endpoint: target, credential: m.want.credential}
		do.add(actConnect)
	}
}

// beginApps starts an app, or the one that is to take its place, or lets it do so.
func (m *machine) beginApps(do *actions, now time.Time) {
	switch {
	case m.app.phase == phaseNone && m.next.phase == phaseNone:
		if m.line.endpoint == m.want.endpoint && m.mayStart(now) {
			m.app = m.newLife()
			do.to(actStart, &m.app)
		}
	case m.app.lent() && m.next.phase == phaseNone:
		if !m.fits(&m.app) && m.mayStart(now) {
			m.next = m.newLife()
			do.to(actPrepare, &m.next)
		}
	case m.app.phase == phaseReady && m.next.phase == phaseWarm:
		m.app.phase = phaseYielding
		do.to(actYield, &m.app)
	}
}

func (m *machine) newLife() life {
	return life{phase: phaseStarting, epoch: m.nextEpoch(), endpoint: m.want.endpoint, shape: m.want.shape}
}

// mayStart reports whether an app for what is wanted may start now.
func (m *machine) mayStart(now time.Time) bool {
	return m.mayStartLater(now) && !now.Before(m.startsAt())
}

// mayStartLater reports whether nothing but time keeps an app from starting.
func (m *machine) mayStartLater(now time.Time) bool {
	l := m.lineTo(m.want.endpoint)
	return l != nil && m.usable(l) && !m.replaces(l) && l.surveyed(m.want.questions) && !m.want.paused && !m.over(now) && m.zombies < maxZombies
}

// maxZombies is how many apps of one remote may be left behind before no other is started: each holds what
// it held, and the next one would mostly end as they did.
const maxZombies = 3

// startsAt returns the time before which no app is started: that of the next try after a failure,
// or the end of a quarantine.
func (m *machine) startsAt() time.Time {
	if m.want.suspicion.Until.After(m.retryAt) {
		return m.want.suspicion.Until
	}
	return m.retryAt
}

// wakeAt returns when decide must be called again though no fact has changed; zero for never.
func (m *machine) wakeAt(now time.Time) time.Time {
	var at time.Time
	waits := m.app.phase == phaseNone || m.app.lent() && !m.fits(&m.app)
	if waits && m.next.phase == phaseNone && m.mayStartLater(now) {
		at = m.startsAt() // in the future, or decide had started the app
	}
	if t := &m.trial; t.credential != "" && !t.underway && !t.accepted && (at.IsZero() || t.retryAt.Before(at)) && t.retryAt.After(now) {
		at = t.retryAt
	}
	if m.mayClean(now) && (at.IsZero() || m.want.removeBy.Before(at)) {
		at = m.want.removeBy
	}
	return at
}
