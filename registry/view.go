// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// view describes the machine's facts as an Info. Name, labels and the like, and Since, are the
// actor's to fill in.
func (m *machine) view() Info {
	info := Info{
		State:     m.state(),
		Reachable: m.reachable(),
		Identity:  m.identity(),
		App:       m.app(),
		ID:        m.id,
		Version:   m.version,
		Epoch:     m.epoch,
		Restarts:  m.failures,
		Zombies:   m.zombies,
	}
	info.Reason, info.Message = summary(info)
	return info
}

func (m *machine) state() State {
	switch {
	case m.want.stop:
		return StateStopping
	case m.want.paused:
		return StatePaused
	case m.contact == contactLost:
		return StateUnreachable
	case m.contact == contactNone:
		return StatePending
	case m.blocked() != nil:
		return StateFailed
	case m.phase == phaseReady:
		return StateReady
	case m.phase != phaseStarting && m.failure != nil:
		return StateFailed
	}
	return StateStarting
}

func (m *machine) reachable() Facet {
	switch {
	case m.want.paused:
		return pausedFacet()
	case m.contact == contactOK:
		return Facet{metav1.ConditionTrue, ReasonProbeSucceeded, "the API server answers"}
	case m.contact == contactLost:
		return m.lost
	}
	return Facet{metav1.ConditionUnknown, ReasonPending, "the API server has not been contacted yet"}
}

func (m *machine) identity() Facet {
	if blocked := m.blocked(); blocked != nil {
		return *blocked
	}
	switch {
	case m.contact == contactOK && m.id == "":
		return Facet{metav1.ConditionUnknown, ReasonForbidden, "the credentials may not read the " +
			"Namespace kube-system, so a change of cluster goes unnoticed; allow get on it to mend that"}
	case m.id == "":
		return Facet{metav1.ConditionUnknown, ReasonPending, "the API server has not been contacted yet"}
	case m.want.identity.Known == "":
		return Facet{metav1.ConditionTrue, ReasonFirstContact, "this is cluster " + m.id}
	}
	return Facet{metav1.ConditionTrue, ReasonSameCluster, "this is cluster " + m.id}
}

func (m *machine) app() Facet {
	switch {
	case m.want.paused:
		return pausedFacet()
	case m.phase == phaseReady:
		return Facet{metav1.ConditionTrue, ReasonRunning, "every module runs"}
	case m.phase == phaseStarting && m.waiting.Reason != "":
		return m.waiting
	case m.failure != nil:
		return Facet{metav1.ConditionFalse, m.failure.reason, m.failure.message}
	case m.phase == phaseStarting:
		return Facet{metav1.ConditionUnknown, ReasonStarting, "the modules are starting"}
	case m.phase == phaseStopping:
		return Facet{metav1.ConditionUnknown, ReasonStopping, "the modules are being stopped"}
	}
	return Facet{metav1.ConditionUnknown, ReasonPending, "the modules have not been started"}
}

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
		return ReasonStopping, "the app is being stopped"
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
