// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const messagePaused = "the cluster is paused"

// MessageStopping is the message of a remote that is being removed.
const MessageStopping = "the app is being stopped"

// PausedCondition is each aspect of a paused remote that is not known.
func PausedCondition() Condition {
	return Condition{Status: metav1.ConditionUnknown, Reason: ReasonPaused, Message: messagePaused}
}

// Summarize sets Reason, Message and Problem to those of the first condition that is not as it should be. An identity
// that cannot be checked is none.
func (s *Status) Summarize() {
	first := s.first()
	s.Reason, s.Message, s.Problem = first.Reason, first.Message, first.Problem
}

func (s *Status) first() Condition {
	switch {
	case s.State == StatePaused:
		return PausedCondition()
	case s.State == StateStopping:
		return Condition{Reason: ReasonStopping, Message: MessageStopping}
	case s.Reachable.Status != metav1.ConditionTrue:
		return s.Reachable
	case s.Identity.Status == metav1.ConditionFalse:
		return s.Identity
	case s.App.Status != metav1.ConditionTrue:
		return s.App
	}
	return Condition{Reason: ReasonReady, Message: cmp.Or(s.Version, "the cluster") + " runs its modules"}
}
