// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SyncRule copies objects of one kind from the hub to remotes, or from remotes to the hub. Its name is part of the marks of its
// copies: with a new name it is another rule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=fxsr,categories=clusterfx
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind.kind`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name="Copies",type=integer,JSONPath=`.status.copies`
// +kubebuilder:printcolumn:name="Problems",type=integer,JSONPath=`.status.problemCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 32 && !self.metadata.name.contains('.')",message="metadata.name must be a DNS label of at most 32 characters, without dots"
type SyncRule struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object. The name is a DNS label of at most 32 characters.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which objects are copied, from where to where and how.
	// +required
	Spec SyncRuleSpec `json:"spec,omitzero"`

	// status is what the hub reports of the rule.
	// +optional
	// +default={"observedGeneration": -1, "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Pending", "message": "Waiting for the hub", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}
	Status SyncRuleStatus `json:"status,omitzero"`
}

// SyncRuleList is a list of SyncRules.
//
// +kubebuilder:object:root=true
type SyncRuleList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the SyncRules.
	// +required
	Items []SyncRule `json:"items"`
}
