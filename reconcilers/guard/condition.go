// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// Reasons that this package sets. Providers add their own.
const (
	// ReasonLocked (Unknown): a task runs, or was interrupted and could not report it.
	ReasonLocked = "Locked"
	// ReasonFailed (False): an error of a task or a provider, which is tried again.
	ReasonFailed = "Failed"
	// ReasonTerminalError (False): a Terminal error. No retry until the object changes.
	ReasonTerminalError = "TerminalError"
	// ReasonInterrupted (Unknown): the context of a task ended first, as when the hub stops.
	ReasonInterrupted = "Interrupted"
	// ReasonPanicked (Unknown): a task panicked. The log says where.
	ReasonPanicked = "Panicked"
	// ReasonNone: the reason given is no CamelCase word.
	ReasonNone = "None"
)

const (
	maxIntent  = 1024 // bytes
	maxMessage = 4096
)

// set changes the condition; LastTransitionTime follows the status only. Values that the API server would refuse are
// shortened: a condition that cannot be written would leave the lock held.
func (e *entry) set(status metav1.ConditionStatus, reason, message string, generation int64) {
	if status != metav1.ConditionTrue && status != metav1.ConditionFalse {
		status = metav1.ConditionUnknown
	}
	if !object.IsReason(reason) {
		reason = ReasonNone
	}
	var conditions []metav1.Condition
	if e.condition.Type != "" {
		conditions = append(conditions, e.condition)
	}
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: e.lock.Type, Status: status, Reason: reason, Message: object.Shortened(message, maxMessage),
		ObservedGeneration: generation,
	})
	e.condition = conditions[0]
}

func (e *entry) fail(class Class, err error, generation int64) {
	reason := ReasonFailed
	if class == Terminal {
		reason = ReasonTerminalError
	}
	e.set(metav1.ConditionFalse, reason, err.Error(), generation)
}
