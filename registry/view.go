// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// view describes the machine's facts as an Info. Name, labels and the like, and Since, are the
// actor's to fill in.
func (m *machine) view(now time.Time) Info {
	info := Info{
		State:         m.state(now),
		Reachable:     m.reachable(),
		Identity:      m.identity(),
		App:           m.appFacet(now),
		ID:            m.line.id,
		Version:       m.line.version,
		Epoch:         m.app.epoch,
		Restarts:      m.failures,
		Zombies:       m.zombies,
		NewServer:     m.newServer(),
		NewCredential: m.newCredential(),
	}
	info.Reason, info.Message = summary(info)
	return info
}

func (m *machine) state(now time.Time) State {
	switch {
	case m.want.stop:
		return StateStopping
	case m.want.paused:
		return StatePaused
	case m.line.contact == contactLost:
		return StateUnreachable
	case m.line.contact == contactNone:
		return StatePending
	case m.blocked(&m.line) != nil:
		return StateFailed
	case m.app.lent():
		return StateReady
	case m.app.phase != phaseStarting && (m.failure != nil || m.quarantined(now)):
		return StateFailed
	}
	return StateStarting
}

func (m *machine) quarantined(now time.Time) bool { return now.Before(m.want.suspicion.Until) }

func (m *machine) reachable() Facet {
	switch {
	case m.want.paused:
		return pausedFacet()
	case m.line.contact == contactOK:
		return Facet{metav1.ConditionTrue, ReasonProbeSucceeded, "the API server answers"}
	case m.line.contact == contactLost:
		return m.line.lost
	}
	return Facet{metav1.ConditionUnknown, ReasonPending, "the API server has not been contacted yet"}
}

func (m *machine) identity() Facet {
	if blocked := m.blocked(&m.line); blocked != nil {
		return *blocked
	}
	switch {
	case m.line.contact == contactOK && m.line.id == "":
		return Facet{metav1.ConditionUnknown, ReasonForbidden, "the credentials may not read the " +
			"Namespace kube-system, so a change of cluster goes unnoticed; allow get on it to mend that"}
	case m.line.id == "":
		return Facet{metav1.ConditionUnknown, ReasonPending, "the API server has not been contacted yet"}
	case m.want.identity.Known == "":
		return Facet{metav1.ConditionTrue, ReasonFirstContact, "this is cluster " + m.line.id}
	}
	return Facet{metav1.ConditionTrue, ReasonSameCluster, "this is cluster " + m.line.id}
}

func (m *machine) appFacet(now time.Time) Facet {
	switch {
	case m.want.paused:
		return pausedFacet()
	case m.app.lent() && !m.fits(&m.app):
		return m.changing()
	case m.app.lent():
		return Facet{metav1.ConditionTrue, ReasonRunning, "every module runs"}
	case m.app.phase == phaseStarting && m.app.waiting.Reason != "":
		return m.app.waiting
	case m.quarantined(now):
		return Facet{metav1.ConditionFalse, ReasonQuarantined, m.quarantineMessage()}
	case m.failure != nil && m.zombies >= maxZombies:
		return Facet{metav1.ConditionFalse, m.failure.reason, clean(m.failure.message + fmt.Sprintf(
			"; %d apps have not ended, so no other one is started before one of them does: restart the hub", m.zombies))}
	case m.failure != nil:
		return Facet{metav1.ConditionFalse, m.failure.reason, m.failure.message}
	case m.app.phase == phaseStarting:
		return Facet{metav1.ConditionUnknown, ReasonStarting, "the modules are starting"}
	case m.app.phase == phaseStopping:
		return Facet{metav1.ConditionUnknown, ReasonStopping, "the modules are being stopped"}
	}
	return Facet{metav1.ConditionUnknown, ReasonPending, "the modules have not been started"}
}

// changing says how far the app is that is to take the place of the one that runs.
func (m *machine) changing() Facet {
	meanwhile := "; the app from before the last change stays in use until then"
	if m.app.phase == phaseYielded {
		meanwhile = "; the controllers of the app before have ended, and its client is still lent out"
	}
	switch {
	case m.failure != nil:
		return Facet{metav1.ConditionFalse, m.failure.reason, clean(unfinished(m.failure.message) + meanwhile)}
	case m.next.phase == phaseStarting && m.next.waiting.Reason != "":
		waiting := m.next.waiting
		waiting.Message = clean(unfinished(waiting.Message) + meanwhile)
		return waiting
	}
	text := "the modules are starting"
	if m.newServer() != (Facet{}) {
		text = "the modules start when the new server can be used, see the condition Reachable"
	}
	return Facet{metav1.ConditionUnknown, ReasonStarting, text + meanwhile}
}

func (m *machine) quarantineMessage() string {
	return fmt.Sprintf("the hub crashed %d times in a row while this app was being started, so it is not "+
		"started before %s; look at the hub's last logs, and change the Cluster or its Secret to try again now",
		m.want.suspicion.Crashes, m.want.suspicion.Until.UTC().Format(time.RFC3339))
}

// unfinished returns a message without its period, so that a clause can follow.
func unfinished(message string) string { return strings.TrimSuffix(message, ".") }

// newServer says why another endpoint is in use than the wanted one.
func (m *machine) newServer() Facet {
	if m.spare.contact != contactLost {
		return Facet{}
	}
	why := m.spare.lost
	why.Message = clean("the new server cannot be used: " + unfinished(why.Message) + "; the one before stays in use")
	return why
}

// messageStopping says of a remote that it is on its way out.
const messageStopping = "the app is being stopped"

func pausedFacet() Facet {
	return Facet{metav1.ConditionUnknown, ReasonPaused, "the cluster is paused"}
}

// summary returns the reason and message of the first facet that is not as it should be.
// An identity that cannot be checked blocks nothing.
func summary(info Info) (reason, message string) {
	switch {
	case info.State == StatePaused:
		return ReasonPaused, "the cluster is paused"
	case info.State == StateStopping:
		return ReasonStopping, messageStopping
	case info.Reachable.Status != metav1.ConditionTrue:
		return info.Reachable.Reason, info.Reachable.Message
	case info.Identity.Status == metav1.ConditionFalse:
		return info.Identity.Reason, info.Identity.Message
	case info.App.Status != metav1.ConditionTrue:
		return info.App.Reason, info.App.Message
	}
	return ReasonReady, fmt.Sprintf("%s runs its modules", orWord(info.Version, "the cluster"))
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
