// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// machine decides what happens to one remote. It is pure: facts come in through its apply
// methods with the time at which they were learnt, decide compares them with what is wanted and
// says what to do next. It starts no goroutine, reads no clock and does no I/O, so that
// thousands of histories of it run in a second.
//
// It is level-based itself: decide looks at facts only, never at the order in which they came.
type machine struct {
	want want

	// What is connected: the endpoint and credential in use, "" for none.
	endpoint, credential string
	contact              contact
	lost                 Facet // why contact is lost
	oks, fails           int   // probes in a row
	id                   string
	knownID              string // learnt at first contact, when the owner knew none
	holder               ClusterName
	isHub                bool
	version              string

	// The app.
	phase   phase
	epoch   int64
	shape   string // what the app of this epoch was built for
	readyAt time.Time
	waiting Facet // what a starting app waits for
	zombies int

	// The last failure of an app, kept until a later app is ready. ended says that it is the
	// app of this epoch that failed.
	failure  *failure
	ended    bool
	failures int
	retryAt  time.Time

	jitter    func() float64 // in [0,1)
	nextEpoch func() int64
}

// want is the desired state, reduced to what decisions need.
type want struct {
	stop, paused         bool
	endpoint, credential string
	shape                string
	identity             Identity
	failureThreshold     int
	successThreshold     int
}

type contact int

const (
	contactNone contact = iota // not probed yet
	contactOK
	contactLost
)

type phase int

const (
	phaseNone phase = iota
	phaseStarting
	phaseReady
	phaseStopping
)

// failure is why an app ended by itself.
type failure struct {
	module, reason, message string
	remote                  bool // the remote could not be reached: nobody's failure but its own
}

// The actions that decide asks for.
type action struct {
	kind  actionKind
	epoch int64
}

type actionKind int

const (
	actConnect actionKind = iota + 1
	actDisconnect
	actSwap
	actStart
	actStop
	actForget
)

// Backoff of failed apps: doubled from retryBase to retryMax, with 20 % jitter either way, and
// forgotten after an app has been healthy for retryReset.
const (
	retryBase  = time.Second
	retryMax   = 2 * time.Minute
	retryReset = 10 * time.Minute
)

// probeFact is the outcome of one probe of the endpoint that the probe was made for.
type probeFact struct {
	endpoint, credential string // what it was made with
	ok                   bool
	failed               Facet // when not ok
	fatal                bool  // credentials rejected: no point in asking twice
	id, version          string
	holder               ClusterName // who holds this id already, "" for nobody else
	isHub                bool
}

// applyWant takes in a new desired state. A change that may cure a failed app is tried at once.
func (m *machine) applyWant(w want) {
	if w.endpoint != m.want.endpoint || w.credential != m.want.credential || w.shape != m.want.shape {
		m.failures, m.retryAt = 0, time.Time{}
	}
	m.want = w
}

func (m *machine) applyProbe(p probeFact) {
	if p.endpoint != m.endpoint || p.fatal && p.credential != m.want.credential {
		return // of another connection, or of a credential that has been replaced since
	}
	if !p.ok {
		m.oks, m.fails = 0, m.fails+1
		if m.contact != contactOK || p.fatal || m.fails >= m.want.failureThreshold {
			m.contact, m.lost = contactLost, p.failed
		}
		return
	}
	m.oks, m.fails = m.oks+1, 0
	m.id, m.holder, m.isHub, m.version = p.id, p.holder, p.isHub, p.version
	if m.knownID == "" && !p.isHub && p.holder == "" {
		m.knownID = p.id
	}
	if m.contact == contactNone || m.oks >= m.want.successThreshold {
		m.contact = contactOK
	}
}

func (m *machine) applyReady(epoch int64, now time.Time) {
	if epoch == m.epoch && m.phase == phaseStarting {
		m.phase, m.readyAt, m.failure, m.waiting = phaseReady, now, nil, Facet{}
	}
}

func (m *machine) applyWaiting(epoch int64, f Facet) {
	if epoch == m.epoch && m.phase == phaseStarting {
		m.waiting = f
	}
}

// applyEnded takes note that an app ended by itself. It still has to be stopped: it may hold
// connections and goroutines.
func (m *machine) applyEnded(epoch int64, f failure, now time.Time) {
	if epoch != m.epoch || m.phase != phaseStarting && m.phase != phaseReady {
		return
	}
	if m.phase == phaseReady && now.Sub(m.readyAt) >= retryReset {
		m.failures = 0
	}
	delay := min(retryBase<<min(m.failures, 16), retryMax)
	if f.remote {
		delay = retryBase
	} else {
		m.failures++
	}
	m.retryAt = now.Add(time.Duration(float64(delay) * (0.8 + 0.4*m.jitter())))
	m.failure, m.ended = &f, true
}

// applyGone takes note that a stopped app is out of the way.
func (m *machine) applyGone(epoch int64) {
	if epoch == m.epoch && m.phase == phaseStopping {
		m.phase = phaseNone
	}
}

// decide returns what to do now and records it as being done. It is called after facts changed
// and when wakeAt has come.
func (m *machine) decide(now time.Time) []action {
	var do []action
	if m.appMustEnd() {
		m.phase = phaseStopping
		do = append(do, action{kind: actStop, epoch: m.epoch})
	}
	switch {
	case m.phase == phaseStopping:
		// Whatever comes next waits until the app is out of the way.
	case m.want.stop:
		do = append(do, m.disconnect()...)
		do = append(do, action{kind: actForget})
	case m.want.paused:
		do = append(do, m.disconnect()...)
	case m.endpoint != m.want.endpoint:
		do = append(do, m.disconnect()...)
		m.endpoint, m.credential = m.want.endpoint, m.want.credential
		do = append(do, action{kind: actConnect})
	case m.credential != m.want.credential:
		m.credential = m.want.credential
		do = append(do, action{kind: actSwap})
	}
	if m.mayStart(now) {
		m.epoch = m.nextEpoch()
		m.phase, m.shape, m.ended, m.waiting = phaseStarting, m.want.shape, false, Facet{}
		do = append(do, action{kind: actStart, epoch: m.epoch})
	}
	return do
}

func (m *machine) disconnect() []action {
	if m.endpoint == "" {
		return nil
	}
	m.endpoint, m.credential = "", ""
	m.contact, m.oks, m.fails = contactNone, 0, 0
	m.id, m.holder, m.isHub, m.version = "", "", false, ""
	return []action{{kind: actDisconnect}}
}

// appMustEnd reports whether an app runs that should not.
func (m *machine) appMustEnd() bool {
	if m.phase != phaseStarting && m.phase != phaseReady {
		return false
	}
	return m.want.stop || m.want.paused || m.ended ||
		m.contact != contactOK || m.blocked() != nil ||
		m.endpoint != m.want.endpoint || m.shape != m.want.shape
}

func (m *machine) mayStart(now time.Time) bool {
	return m.phase == phaseNone && !m.want.stop && !m.want.paused && m.endpoint != "" &&
		m.contact == contactOK && m.blocked() == nil && !now.Before(m.retryAt)
}

// blocked returns why the identity of the remote forbids an app, or nil.
func (m *machine) blocked() *Facet {
	refuse := func(reason, format string, args ...any) *Facet {
		return &Facet{Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case m.id == "":
		return nil
	case m.isHub:
		return refuse(ReasonIsHub, "the credentials lead to the hub's own cluster; "+
			"start the hub with --allow-hub-as-remote if that is meant")
	case !m.expects(m.id):
		return refuse(ReasonIdentityChanged, "the credentials lead to cluster %s, but this name "+
			"belongs to %s; mend the Secret, or accept the new cluster with the annotation "+
			"clusterfx.dev/accept-id=%s", m.id, m.known(), m.id)
	case m.holder != "":
		return refuse(ReasonDuplicate, "cluster %s is registered as %q already; delete one of the two", m.id, m.holder)
	}
	return nil
}

// expects reports whether a remote with this id is the one that is meant. What is not expected has
// no claim to the id.
func (m *machine) expects(id string) bool {
	known := m.known()
	return known == "" || known == id || m.want.identity.Accepted == id
}

// known returns which cluster the remote was before, or "".
func (m *machine) known() string {
	if m.want.identity.Known != "" {
		return m.want.identity.Known
	}
	return m.knownID
}

// wakeAt returns when decide must be called again though no fact has changed; zero for never.
func (m *machine) wakeAt() time.Time {
	if m.phase == phaseNone && m.contact == contactOK && m.blocked() == nil && !m.want.stop && !m.want.paused {
		return m.retryAt // in the future, or decide had started the app
	}
	return time.Time{}
}
