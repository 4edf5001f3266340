// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// Reasons of conditions that this package sets. Providers add reasons of their own.
const (
	// ReasonLocked: a task runs, or has been interrupted and could not report it. Status is Unknown.
	ReasonLocked = "Locked"
	// ReasonFailed: a task or a provider returned an error. It is tried again. Status is False.
	ReasonFailed = "Failed"
	// ReasonTerminalError: a task or a provider returned a Terminal error. It is not called again until the object
	// changes. Status is False.
	ReasonTerminalError = "TerminalError"
	// ReasonInterrupted: the context of a task ended before it did, as when the hub stops. Status is Unknown.
	ReasonInterrupted = "Interrupted"
	// ReasonPanicked: a task panicked. The log says where. Status is Unknown.
	ReasonPanicked = "Panicked"
	// ReasonNone: a task or a provider gave a reason that is not a CamelCase word.
	ReasonNone = "None"
)

const (
	maxIntent  = 1024 // bytes
	maxMessage = 4096 // the API server takes 32 KiB
)

// set changes the condition. LastTransitionTime changes with the status only. Values that the API server would refuse
// are replaced or shortened: a condition that cannot be written would leave the lock held.
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

// fail sets the condition to False with the reason of an error's class.
func (e *entry) fail(class Class, err error, generation int64) {
	reason := ReasonFailed
	if class == Terminal {
		reason = ReasonTerminalError
	}
	e.set(metav1.ConditionFalse, reason, err.Error(), generation)
}
