// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of a Cluster's status. The API server counts characters and refuses the whole status if one of them is
// exceeded, so a writer of status cuts its texts to these limits first.
const (
	// MaxServerLength is the limit of status.server.
	MaxServerLength = 2048

	// MaxModules is the limit of the entries of spec.modules and of status.modules.
	MaxModules = 128

	// MaxModuleNameLength is the limit of a module's name.
	MaxModuleNameLength = 32

	// MaxModuleReasonLength is the limit of the reason of an entry of status.modules.
	MaxModuleReasonLength = 128

	// MaxModuleMessageLength is the limit of the message of an entry of status.modules.
	MaxModuleMessageLength = 1024

	// MaxControllers is the limit of the entries of status.modules[].controllers.
	MaxControllers = 16

	// MaxControllerNameLength is the limit of a controller's name.
	MaxControllerNameLength = 63

	// MaxControllerMessageLength is the limit of the message of an entry of status.modules[].controllers.
	MaxControllerMessageLength = 256

	// MaxConditionMessageLength is the limit of the message of a condition.
	MaxConditionMessageLength = 32768
)

// CredentialType is a kind of credentials.
//
// +kubebuilder:validation:Enum=Token;ClientCertificate;Exec
type CredentialType string

const (
	// CredentialToken is a bearer token.
	CredentialToken CredentialType = "Token"

	// CredentialClientCertificate is a client certificate with its key.
	CredentialClientCertificate CredentialType = "ClientCertificate"

	// CredentialExec is the output of a command. No hub accepts one yet.
	CredentialExec CredentialType = "Exec"
)

// ModuleState is how far a module has come in the app of a remote.
//
// +kubebuilder:validation:Enum=Stopped;Waiting;Starting;Running;Failed
type ModuleState string

const (
	// ModuleStopped means that the app does not run, so the module does not either.
	ModuleStopped ModuleState = "Stopped"

	// ModuleWaiting means that the module waits for something that the remote lacks, for example an API or a
	// permission, while the rest of the app runs.
	ModuleWaiting ModuleState = "Waiting"

	// ModuleStarting means that the module is being built or that its caches are filling.
	ModuleStarting ModuleState = "Starting"

	// ModuleRunning means that the module does its work.
	ModuleRunning ModuleState = "Running"

	// ModuleFailed means that the module brought the app down, which is started again later.
	ModuleFailed ModuleState = "Failed"
)

// ClusterStatus is the state of a remote as the hub observed it. It is a report: the hub decides nothing by reading it
// back, and writes it only when something changed, not with every probe.
type ClusterStatus struct {
	// conditions say which of the steps to a usable remote have been taken. Ready is their summary.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status is about. It is -1 until
	// the hub has seen the Cluster.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// id is the identity of the remote: the UID of its namespace kube-system.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`

	// server is the URL that the hub uses for the remote.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Server string `json:"server,omitempty"`

	// version is the version of Kubernetes that the remote runs.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version,omitempty"`

	// credentials describe the credentials in use, without containing them.
	// +optional
	Credentials CredentialsStatus `json:"credentials,omitzero"`

	// moduleSummary is the number of modules that run, and of modules that were selected, as in 3/4.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ModuleSummary string `json:"moduleSummary,omitempty"`

	// modules are the modules that are wanted for the remote, sorted by name. The reason of a waiting module is
	// APIMissing, VersionUnsupported, RightsMissing, HubPartNotRunning, or Waiting.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Modules []ModuleStatus `json:"modules,omitempty"`

	// runner is the process that runs the app of the remote, where several share the Clusters. It is empty in a hub of which
	// one replica works and the others stand by.
	// +optional
	Runner RunnerStatus `json:"runner,omitzero"`

	// tunnel is the state of the remote's agent, for a Cluster with via: Tunnel.
	// +optional
	Tunnel TunnelStatus `json:"tunnel,omitzero"`

	// inventory has the counts of the inventory module for the remote. The module writes it with its own field manager.
	// +optional
	Inventory InventoryStatus `json:"inventory,omitzero"`

	// remains are rules that were deleted while the remote could not be told. What they left there is dealt with when it returns,
	// without evidence of its own, and forgotten with the Cluster. The module sync writes them with its own field manager.
	// +optional
	// +listType=map
	// +listMapKey=rule
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=64
	Remains []SyncRemains `json:"remains,omitempty"`
}

// CredentialsStatus describes credentials without containing them.
type CredentialsStatus struct {
	// type is the kind of the credentials.
	// +optional
	Type CredentialType `json:"type,omitempty"`

	// fingerprint changes when the credentials change, and reveals nothing else about them.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Fingerprint string `json:"fingerprint,omitempty"`

	// expirationTime is the time at which the credentials expire. It is not set if they do not, or
	// if they do not say when.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitzero"`
}

// TunnelStatus is the state of a remote's agent.
type TunnelStatus struct {
	// replica is the replica of the hub to which the agent is connected. It is empty if the agent is not connected.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Replica string `json:"replica,omitempty"`

	// agentVersion is the version of the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AgentVersion string `json:"agentVersion,omitempty"`

	// keyFingerprint is that of the key with which the agent has connected.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	KeyFingerprint string `json:"keyFingerprint,omitempty"`

	// connectedTime is when the agent connected. It is not set if the agent is not connected.
	// +optional
	ConnectedTime metav1.Time `json:"connectedTime,omitzero"`

	// lastSeenTime is when the connection of an agent ended that is not connected now.
	// +optional
	LastSeenTime metav1.Time `json:"lastSeenTime,omitzero"`
}

// ModuleStatus is the state of one module in the app of a remote.
type ModuleStatus struct {
	// name is the name of the module.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name,omitempty"`

	// state is how far the module has come.
	// +required
	State ModuleState `json:"state,omitempty"`

	// reason is the reason of the state in one word, for states that need an explanation.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message explains the state to a human, for states that need an explanation.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// controllers are the controllers that the module runs for the remote, in the order in which it has added them. If
	// there are more than 16, the controllers that do not run come first. The list is empty while no app runs, and in
	// the first seconds of a start.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Controllers []ControllerStatus `json:"controllers,omitempty"`
}

// ControllerStatus is the state of one controller of a module in the app of a remote.
type ControllerStatus struct {
	// name is the name of the controller.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// state is how far the controller has come: Starting until it has seen the objects that were there at
	// the start, Waiting if something is known to be in the way of them, and Running after that.
	// +required
	State ModuleState `json:"state,omitempty"`

	// reason is the reason in one word why the controller does not run.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message explains to a human for which kinds of objects the controller waits, and why.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// InventoryStatus has the counts of the inventory module for a remote.
type InventoryStatus struct {
	// nodes is the number of nodes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes *int32 `json:"nodes,omitempty"`

	// readyNodes is the number of nodes that are ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyNodes *int32 `json:"readyNodes,omitempty"`

	// allocatable is the sum of the resources that the nodes offer to Pods.
	// +optional
	Allocatable AllocatableStatus `json:"allocatable,omitzero"`
}

// AllocatableStatus is the sum of the resources that the nodes of a remote offer to Pods.
type AllocatableStatus struct {
	// cpu is the sum of the nodes' allocatable CPU.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the sum of the nodes' allocatable memory.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}
