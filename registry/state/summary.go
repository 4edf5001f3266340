// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const messagePaused = "the cluster is paused"

// MessageStopping is the message of a remote that is being removed.
const MessageStopping = "the app is being stopped"

// PausedCondition is the condition of each aspect of a paused remote that is not known.
func PausedCondition() Condition {
	return Condition{Status: metav1.ConditionUnknown, Reason: ReasonPaused, Message: messagePaused}
}

// Summary returns the reason and message of the first condition that is not as it should be. An identity that cannot be
// checked is no reason.
func (s *Status) Summary() (reason, message string) {
	switch {
	case s.State == StatePaused:
		return ReasonPaused, messagePaused
	case s.State == StateStopping:
		return ReasonStopping, MessageStopping
	case s.Reachable.Status != metav1.ConditionTrue:
		return s.Reachable.Reason, s.Reachable.Message
	case s.Identity.Status == metav1.ConditionFalse:
		return s.Identity.Reason, s.Identity.Message
	case s.App.Status != metav1.ConditionTrue:
		return s.App.Reason, s.App.Message
	}
	return ReasonReady, cmp.Or(s.Version, "the cluster") + " runs its modules"
}
