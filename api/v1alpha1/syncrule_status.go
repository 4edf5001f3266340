// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SyncRuleStatus is what the hub reports of a rule. It is a report: the hub decides nothing by reading it back.
type SyncRuleStatus struct {
	// conditions say how far the rule has come. Ready is their summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that the conditions are about. It is -1 until the hub has seen the rule.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// summary is the number of Clusters that have followed this generation, and of those selected, as in 3/4.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Summary string `json:"summary,omitempty"`

	// copies is the number of copies in all Clusters.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Copies *int32 `json:"copies,omitempty"`

	// problems are examples: of each Cluster that has problems with the rule at most one of each reason, and at most 20 in all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []SyncProblem `json:"problems,omitempty"`

	// problemCount is the number of Clusters that have a problem with the rule.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ProblemCount *int32 `json:"problemCount,omitempty"`

	// replicas is what each replica of the hub says of the Clusters that it runs. Each writes its own entry.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Replicas []SyncReplica `json:"replicas,omitempty"`
}

// SyncReplica is what one replica of the hub says of a rule.
type SyncReplica struct {
	// name is the name of the replica.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// observedGeneration is the generation of the rule that the numbers are about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// clusters is the number of selected Clusters that the replica runs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Clusters *int32 `json:"clusters,omitempty"`

	// ready is the number of those that have followed the generation.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready *int32 `json:"ready,omitempty"`

	// unreachable is the number of those that have not followed it and cannot be reached.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unreachable *int32 `json:"unreachable,omitempty"`

	// ended is the number of those in which a rule that is being deleted has nothing left to do.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ended *int32 `json:"ended,omitempty"`

	// originals is the number of selected originals, in all of these Clusters.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Originals *int32 `json:"originals,omitempty"`

	// copies is the number of copies, in all of these Clusters.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Copies *int32 `json:"copies,omitempty"`

	// problemCount is the number of these Clusters that have a problem.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ProblemCount *int32 `json:"problemCount,omitempty"`

	// problems are examples, sorted by Cluster and reason.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []SyncProblem `json:"problems,omitempty"`

	// unready are names of Clusters that have not followed the generation, at most 20. Of a rule that is being deleted, those that
	// have not ended.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Unready []string `json:"unready,omitempty"`
}

// SyncProblem is a problem that a rule has in a Cluster.
type SyncProblem struct {
	// cluster is the name of the Cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`

	// reason is what the problem is.
	// +required
	Reason SyncProblemReason `json:"reason,omitempty"`

	// object is an example, as namespace/name, or what is lacking.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Object string `json:"object,omitempty"`

	// time is when the problem was first reported.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
}

// SyncRemains is what a deleted rule has left in a remote that could not be told.
type SyncRemains struct {
	// rule is the name of the rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Rule string `json:"rule,omitempty"`

	// uid is the UID of the rule.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID string `json:"uid,omitempty"`

	// from is the source of the rule.
	// +required
	From SyncSource `json:"from,omitempty"`

	// kind is the kind of its objects.
	// +required
	Kind SyncKind `json:"kind,omitzero"`

	// hubID is the id of the hub, which is in the marks of the copies.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	HubID string `json:"hubID,omitempty"`

	// policy is what happens to the copies.
	// +required
	Policy SyncEnd `json:"policy,omitempty"`
}
