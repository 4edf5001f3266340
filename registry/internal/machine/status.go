// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Status lacks what the actor knows: the name, values of the desired state, and Since.
func (m *Machine) Status(now time.Time) state.Status {
	info := state.Status{
		State:         m.state(now),
		Reachable:     m.reachable(),
		Identity:      m.identity(),
		App:           m.appCondition(now),
		ID:            m.Connection.id,
		Version:       m.Connection.Version,
		Epoch:         m.Latest().Epoch,
		Restarts:      m.Failures,
		Zombies:       m.Zombies,
		NewServer:     m.newServer(),
		NewCredential: m.newCredential(),
	}
	info.Summarize()
	return info
}

func (m *Machine) state(now time.Time) state.State {
	switch {
	case m.want.Stop:
		return state.StateStopping
	case m.want.Paused:
		return state.StatePaused
	case m.Connection.Contact == contactLost:
		return state.StateUnreachable
	case m.Connection.Contact == contactNone:
		return state.StatePending
	case m.blocked(&m.Connection) != nil:
		return state.StateFailed
	case m.IsWarm():
		return state.StateWarm
	case m.App.Lent():
		return state.StateReady
	case m.Latest().phase != phaseStarting && (m.Failure != nil || m.quarantined(now)):
		return state.StateFailed
	}
	return state.StateStarting
}

func (m *Machine) quarantined(now time.Time) bool { return now.Before(m.want.CrashRecord.Until) }

func (m *Machine) reachable() state.Condition {
	switch {
	case m.want.Paused:
		return state.PausedCondition()
	case m.Connection.Contact == ContactOK && m.Connection.throttled.Reason != "":
		throttled := m.Connection.throttled
		throttled.Status = metav1.ConditionTrue
		return throttled
	case m.Connection.Contact == ContactOK:
		return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonProbeSucceeded, Message: "the API server responds"}
	case m.Connection.Contact == contactLost:
		return m.Connection.lost
	}
	return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the API server has not been contacted yet"}
}

func (m *Machine) identity() state.Condition {
	if blocked := m.blocked(&m.Connection); blocked != nil {
		return *blocked
	}
	switch {
	case m.Connection.Contact == ContactOK && m.Connection.id == "":
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonForbidden, Message: "the credentials may not read the " +
			"Namespace kube-system, so the hub cannot detect a change of cluster; allow get on that Namespace"}
	case m.Connection.id == "":
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the API server has not been contacted yet"}
	case m.want.Identity.Known == "":
		return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonFirstContact, Message: "this is cluster " + m.Connection.id}
	}
	return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonSameCluster, Message: "this is cluster " + m.Connection.id}
}

func (m *Machine) appCondition(now time.Time) state.Condition {
	latest := m.Latest()
	switch {
	case m.want.Paused:
		return state.PausedCondition()
	case m.App.Lent() && !m.fits(&m.App):
		return m.changing()
	case m.App.Lent():
		return state.Condition{Status: metav1.ConditionTrue, Reason: state.ReasonRunning, Message: "every module runs"}
	case m.IsWarm():
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonStarting, Message: messageWarm}
	case latest.phase == phaseStarting && latest.waiting.Reason != "":
		return latest.waiting
	case m.quarantined(now):
		return state.Condition{
			Status: metav1.ConditionFalse, Reason: state.ReasonQuarantined,
			Message: "the app ended the process of the hub, so it is not started before " + m.want.CrashRecord.Until.UTC().Format(time.RFC3339),
		}
	case m.Failure != nil && m.Zombies >= MaxZombies:
		return m.Failure.condition(state.Sanitize(m.Failure.Message + fmt.Sprintf(
			"; %d apps have not ended, so no app is started before one of them ends: restart the hub", m.Zombies)))
	case m.Failure != nil:
		return m.Failure.condition(m.Failure.Message)
	case latest.phase == phaseStarting:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonStarting, Message: "the modules are starting"}
	case latest.phase == phaseStopping:
		return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonStopping, Message: "the modules are being stopped"}
	}
	return state.Condition{Status: metav1.ConditionUnknown, Reason: state.ReasonPending, Message: "the modules have not been started"}
}

const messageWarm = "the modules are built and their caches are filled; they wait until this hub may work on the cluster"

// changing is the progress of the next app while the running app stays in use.
func (m *Machine) changing() state.Condition {
	meanwhile := "; the running app stays in use until then"
	if m.App.phase == phaseYielded {
		meanwhile = "; the controllers of the running app have ended, and its client is still lent out"
	}
	switch {
	case m.Failure != nil:
		return m.Failure.condition(state.Sanitize(unfinished(m.Failure.Message) + meanwhile))
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

func (f *Failure) condition(message string) state.Condition {
	return state.Condition{Status: metav1.ConditionFalse, Reason: f.Reason, Message: message, Problem: f.Problem}
}

// unfinished lets a clause follow a message.
func unfinished(message string) string { return strings.TrimSuffix(message, ".") }

func (m *Machine) newServer() state.Condition {
	if m.Spare.Contact != contactLost {
		return state.Condition{}
	}
	why := m.Spare.lost
	why.Message = state.Sanitize("the new server cannot be used: " + unfinished(why.Message) + "; the current server stays in use")
	return why
}
