// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RunnerSpec says which replica of the hub should run the app of a remote. It is a wish: where no live replica has the labels,
// another replica runs the app.
type RunnerSpec struct {
	// matchLabels are labels that the replica should have. A replica has the labels of its flag --replica-labels. Replicas
	// share the Clusters by shards, and a shard has one replica: the Clusters in the shard of this Cluster run with it, and where
	// they ask for other labels, the labels that most of them ask for count.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))",message="each key of runner.matchLabels must be the key of a label"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MinLength=0
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// RunnerStatus names the process that runs the app of a remote. That process writes it, on change only: it is a report and
// grants nothing.
type RunnerStatus struct {
	// name is the name of the process: of a replica of the hub, the name of its Pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// type is the kind of the process.
	// +optional
	Type RunnerType `json:"type,omitempty"`

	// version is the version of the program.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// epoch counts the processes to which the remote was given, one after the other. It never decreases. The writes to the
	// remote have it in their user agent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int32 `json:"epoch,omitempty"`

	// since is when the process first reported that it has the remote in this epoch.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
}

// RunnerType is the kind of process that runs apps.
// +kubebuilder:validation:Enum=Hub
type RunnerType string

// RunnerHub is a replica of the hub.
const RunnerHub RunnerType = "Hub"
