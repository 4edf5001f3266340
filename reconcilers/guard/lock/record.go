// SPDX-License-Identifier: Apache-2.0

package lock

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Record is the lock behind one condition of an object, and what has to survive the one who holds it. It is
// written by package guard only. Its times are for people: nothing compares them with a clock.
type Record struct {
	// Type is the type of the condition that the lock belongs to.
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`
	// Holder is who runs a task now. Empty: nobody does.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Holder string `json:"holder,omitempty"`
	// TTLSeconds is how long the record has to stay as it is before others may take the lock from Holder.
	// +kubebuilder:validation:Minimum=1
	// +optional
	TTLSeconds int32 `json:"ttlSeconds,omitempty"`
	// AcquiredAt is when Holder took the lock, by its clock.
	// +optional
	AcquiredAt *metav1.Time `json:"acquiredAt,omitempty"`
	// RenewedAt is when Holder last said that it is still there, by its clock.
	// +optional
	RenewedAt *metav1.Time `json:"renewedAt,omitempty"`

	// Attempt counts the changes that were tried, each of them once, however many runs it took.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`
	// AttemptID names the current or last attempt to the external system.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	AttemptID string `json:"attemptID,omitempty"`
	// Runs is how often a task began in the current attempt. Zero: the attempt has come to its end.
	// +optional
	Runs int64 `json:"runs,omitempty"`
	// Intent is what the current attempt was begun for.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Intent string `json:"intent,omitempty"`
	// Settled is the reason of the condition as it was before the current attempt, or is after the last one.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Settled string `json:"settled,omitempty"`

	// Revision changes with every write. A lock whose revision stays is not renewed any more.
	// +optional
	Revision int64 `json:"revision,omitempty"`
}

// DeepCopyInto copies the record into out.
func (r *Record) DeepCopyInto(out *Record) {
	*out = *r
	out.AcquiredAt = r.AcquiredAt.DeepCopy()
	out.RenewedAt = r.RenewedAt.DeepCopy()
}
