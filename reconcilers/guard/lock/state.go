// SPDX-License-Identifier: Apache-2.0

package lock

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// State is the lock of one condition of an object, and the state that has to survive its holder. Only package guard
// writes it. Its times are for people: no process compares them with a clock.
type State struct {
	// Type is the type of the condition that the lock belongs to.
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`
	// Holder is the process that runs a task. Empty: no task runs.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Holder string `json:"holder,omitempty"`
	// TTLSeconds is the time for which the record must not change before another process may take the lock from Holder.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
	// AcquiredAt is when Holder took the lock, by its clock.
	// +optional
	AcquiredAt *metav1.Time `json:"acquiredAt,omitempty"`
	// RenewedAt is when Holder last renewed the lock, by its clock.
	// +optional
	RenewedAt *metav1.Time `json:"renewedAt,omitempty"`

	// Attempt counts the attempted changes, each of them once, however many runs it took.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// AttemptID names the current or last attempt to the external system.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AttemptID string `json:"attemptID,omitempty"`
	// Runs is how often a task began in the current attempt. Zero: the attempt has ended.
	// +optional
	Runs int64 `json:"runs,omitempty"`
	// Intent is the purpose of the current attempt.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Intent string `json:"intent,omitempty"`
	// Settled is the reason of the condition before the current attempt, or after the last attempt.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Settled string `json:"settled,omitempty"`

	// Revision changes with every write. A lock whose revision does not change is no longer renewed.
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// DeepCopyInto copies the record into out.
func (r *State) DeepCopyInto(out *State) {
	*out = *r
	out.AcquiredAt = r.AcquiredAt.DeepCopy()
	out.RenewedAt = r.RenewedAt.DeepCopy()
}
