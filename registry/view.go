// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/state"
)

// view describes the machine's facts as a Status. Name, labels and the like, and Since, are the
// actor's to fill in.
func (m *machine) view(now time.Time) state.Status {
	info := state.Status{
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
	info.Reason, info.Message = info.Summary()
	return info
}

func (m *machine) state(now time.Time) state.State {
	switch {
	case m.want.stop:
		return state.StateStopping
	case m.want.paused:
		return state.StatePaused
	case m.line.contact == contactLost:
		return state.StateUnreachable
	case m.line.contact == contactNone:
		return state.StatePending
	case m.blocked(&m.line) != nil:
		return state.StateFailed
	case m.app.lent():
		return state.StateReady
	case m.app.phase != phaseStarting && (m.failure != nil || m.quarantined(now)):
		return state.StateFailed
	}
	return state.StateStarting
}

func (m *machine) quarantined(now time.Time) bool { return now.Before(m.want.suspicion.Until) }

func (m *machine) reachable() state.Condition {
	switch {
	case m.want.paused:
		return state.PausedCondition()
	case m.line.contact == contactOK:
		return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonProbeSucceeded, Message: "the API server answers"}
	case m.line.contact == contactLost:
		return m.line.lost
	}
	return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the API server has not been contacted yet"}
}

func (m *machine) identity() state.Condition {
	if blocked := m.blocked(&m.line); blocked != nil {
		return *blocked
	}
	switch {
	case m.line.contact == contactOK && m.line.id == "":
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonForbidden, Message: "the credentials may not read the " +
			"Namespace kube-system, so a change of cluster goes unnoticed; allow get on it to mend that"}
	case m.line.id == "":
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the API server has not been contacted yet"}
	case m.want.identity.Known == "":
		return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonFirstContact, Message: "this is cluster " + m.line.id}
	}
	return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonSameCluster, Message: "this is cluster " + m.line.id}
}

func (m *machine) appFacet(now time.Time) state.Condition {
	switch {
	case m.want.paused:
		return state.PausedCondition()
	case m.app.lent() && !m.fits(&m.app):
		return m.changing()
	case m.app.lent():
		return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonRunning, Message: "every module runs"}
	case m.app.phase == phaseStarting && m.app.waiting.Reason != "":
		return m.app.waiting
	case m.quarantined(now):
		return state.Condition{Status: metav1.ConditionFalse, Reason: state.ReasonQuarantined, Message: m.quarantineMessage()}
	case m.failure != nil && m.zombies >= maxZombies:
		return state.Condition{Status: metav1.ConditionFalse, Reason: m.failure.reason, Message: state.Sanitize(m.failure.message + fmt.Sprintf(
			"; %d apps have not ended, so no other one is started before one of them does: restart the hub", m.zombies))}
	case m.failure != nil:
		return state.Condition{Status: metav1.ConditionFalse, Reason: m.failure.reason, Message: m.failure.message}
	case m.app.phase == phaseStarting:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonStarting, Message: "the modules are starting"}
	case m.app.phase == phaseStopping:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonStopping, Message: "the modules are being stopped"}
	}
	return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the modules have not been started"}
}

// changing says how far the app is that is to take the place of the one that runs.
func (m *machine) changing() state.Condition {
	meanwhile := "; the app from before the last change stays in use until then"
	if m.app.phase == phaseYielded {
		meanwhile = "; the controllers of the app before have ended, and its client is still lent out"
	}
	switch {
	case m.failure != nil:
		return state.Condition{Status: metav1.ConditionFalse, Reason: m.failure.reason, Message: state.Sanitize(unfinished(m.failure.message) + meanwhile)}
	case m.next.phase == phaseStarting && m.next.waiting.Reason != "":
		waiting := m.next.waiting
		waiting.Message = state.Sanitize(unfinished(waiting.Message) + meanwhile)
		return waiting
	}
	text := "the modules are starting"
	if m.newServer() != (state.Condition{}) {
		text = "the modules start when the new server can be used, see the condition Reachable"
	}
	return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonStarting, Message: text + meanwhile}
}

func (m *machine) quarantineMessage() string {
	return fmt.Sprintf("the hub crashed %d times in a row while this app was being started, so it is not "+
		"started before %s; look at the hub's last logs, and change the Cluster or its Secret to try again now",
		m.want.suspicion.Crashes, m.want.suspicion.Until.UTC().Format(time.RFC3339))
}

// unfinished returns a message without its period, so that a clause can follow.
func unfinished(message string) string { return strings.TrimSuffix(message, ".") }

// newServer says why another endpoint is in use than the wanted one.
func (m *machine) newServer() state.Condition {
	if m.spare.contact != contactLost {
		return state.Condition{}
	}
	why := m.spare.lost
	why.Message = state.Sanitize("the new server cannot be used: " + unfinished(why.Message) + "; the one before stays in use")
	return why
}
