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

// ClusterState says whether the hub runs an app for a remote.
//
// +kubebuilder:validation:Enum=Active;Paused
type ClusterState string

const (
	// ClusterActive means that the hub runs an app for the remote. It is the default.
	ClusterActive ClusterState = "Active"

	// ClusterPaused means that the hub stops the app and keeps the Cluster.
	ClusterPaused ClusterState = "Paused"
)

// Via is how the hub reaches a remote.
//
// +kubebuilder:validation:Enum=Direct;Tunnel
type Via string

const (
	// ViaDirect means that the hub connects to the server. It is the default.
	ViaDirect Via = "Direct"

	// ViaTunnel means that an agent in the remote connects to the hub, and the hub reaches the server through that.
	ViaTunnel Via = "Tunnel"
)

// ClusterSpec describes how to reach a remote and which modules to run for it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.proxyURL) || !has(self.via) || self.via != 'Tunnel'",message="proxyURL has no effect with via: Tunnel; remove it"
type ClusterSpec struct {
	// kubeconfigSecretRef names the Secret with the credentials. The Secret may be missing when the Cluster is created:
	// the CredentialsValid condition reports that until it exists.
	// +required
	KubeconfigSecretRef KubeconfigSecretRef `json:"kubeconfigSecretRef,omitzero"`

	// via is Direct if the hub connects to the server, and Tunnel if an agent in the remote connects to the hub, which reaches
	// the server through that. Then the host and the port of the server are those of --to of the agent. It is Direct unless set.
	// +optional
	Via Via `json:"via,omitempty"`

	// server is the URL of the remote's API server, and replaces the URL in the Secret. It is an https URL without
	// user, query and fragment.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",message="server must be an https URL"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[@?#]')",message="server must not contain a user, a query or a fragment"
	Server string `json:"server,omitempty"`

	// tlsServerName is the name that the remote's certificate must be valid for, if it is not the
	// host of the server's URL.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$')",message="tlsServerName must be a host name or an IPv4 address"
	TLSServerName string `json:"tlsServerName,omitempty"`

	// proxyURL is the URL of a proxy through which the remote is reached, and replaces the URL in the Secret. The hub
	// uses it only if its operator allows proxies. A proxy URL with a password belongs into the Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https', 'socks5'] && url(self).getHostname() != ''",message="proxyURL must be an http, https or socks5 URL"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[@?#]')",message="proxyURL must not contain a user, a query or a fragment"
	ProxyURL string `json:"proxyURL,omitempty"`

	// state is Active if the hub should run an app for the remote, and Paused if it should stop the
	// app and keep the Cluster. It is Active unless set.
	// +optional
	// +default="Active"
	State ClusterState `json:"state,omitempty"`

	// probe configures the probes by which the hub determines whether the remote can be reached.
	// +optional
	// +default={}
	Probe ProbeSpec `json:"probe,omitzero"`

	// client limits the requests that the hub sends to the remote.
	// +optional
	// +default={}
	Client ClientSpec `json:"client,omitzero"`

	// modules are the names of the modules to run for the remote. If it is not set, every module runs that is on by
	// default and selects the Cluster. A module that is named here runs regardless of the labels that it selects; it
	// still waits for the APIs, the version and the permissions that it needs from the remote.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z][-a-z0-9]*[a-z0-9]$')",message="each of modules must be a module name: lower-case letters, digits and '-', a letter first, no '-' last"
	Modules []string `json:"modules,omitempty"`

	// namespaces are the only namespaces of the remote that the credentials may see. If it is set,
	// caches are limited to them; if it is not set, caches hold all namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="each of namespaces must be the name of a namespace: lower-case letters, digits and '-', not at the start or end"
	Namespaces []string `json:"namespaces,omitempty"`

	// runner says which replica of the hub should run the app, if the replicas share the Clusters. Any replica runs it if it is
	// not set.
	// +optional
	Runner RunnerSpec `json:"runner,omitzero"`
}

// KubeconfigSecretRef names the Secret with the credentials for a remote. It has no namespace: the
// Secret is in the hub's credentials namespace.
type KubeconfigSecretRef struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="kubeconfigSecretRef.name must be the name of a Secret: lower-case letters, digits, '-' and '.'"
	Name string `json:"name,omitempty"`

	// key is the key of the Secret's data that holds the kubeconfig. If it is not set, the known
	// keys are tried: kubeconfig, value, value.yaml, config, token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="kubeconfigSecretRef.key must be a key of a Secret: letters, digits, '-', '_' and '.'"
	Key string `json:"key,omitempty"`

	// context is the context of the kubeconfig to use. If it is not set, it is the current context.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Context string `json:"context,omitempty"`
}

// ProbeSpec configures the probes by which the hub determines whether a remote can be reached. After a first failure it
// probes every second, whatever the period is.
//
// +kubebuilder:validation:XValidation:rule="!has(self.timeoutSeconds) || !has(self.periodSeconds) || self.timeoutSeconds <= self.periodSeconds",message="probe.timeoutSeconds must not be greater than probe.periodSeconds"
type ProbeSpec struct {
	// periodSeconds is the time between two probes of a remote that is in doubt, such as after a connection to it was lost. A
	// remote that is not in doubt is probed after two periods or 10 seconds, whichever is shorter, or, if the hub receives
	// something else from it meanwhile, after at most four periods or 20 seconds. A longer period is used as it is. It is 5
	// unless set.
	// +optional
	// +default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// timeoutSeconds is the time after which a probe without a response has failed. It is 3 unless set.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failureThreshold is the number of probes in a row that must fail before the remote counts as
	// unreachable. It is 3 unless set.
	// +optional
	// +default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// successThreshold is the number of probes in a row that must succeed before the remote counts
	// as reachable again. It is 1 unless set.
	// +optional
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	SuccessThreshold int32 `json:"successThreshold,omitempty"`
}

// ClientSpec limits the requests that the hub sends to a remote. The limits hold for everything
// that runs for the remote together, except for the probes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !has(self.qps) || self.burst >= self.qps",message="client.burst must not be less than client.qps"
type ClientSpec struct {
	// qps is the number of requests per second that is allowed for long. It is 500 unless set: API
	// servers protect themselves with priority and fairness, and a lower limit makes thousands of objects wait for minutes.
	// +optional
	// +default=500
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	QPS int32 `json:"qps,omitempty"`

	// burst is the number of requests that is allowed at once. It is 1000 unless set, and not less
	// than qps.
	// +optional
	// +default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20000
	Burst int32 `json:"burst,omitempty"`

	// timeoutSeconds is the time after which a request without a response is given up. Watches are excepted. It is 10
	// unless set.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

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

// Cluster registers a remote with the hub. Its Secret is in the hub's credentials namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,shortName=fxc,categories=clusterfx
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Modules",type=string,JSONPath=`.status.moduleSummary`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Server",type=string,priority=1,JSONPath=`.status.server`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.credentials.expirationTime`
// +kubebuilder:printcolumn:name="Runner",type=string,priority=1,JSONPath=`.status.runner.name`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",message="metadata.name must be a DNS label: 63 characters at most, and no dots"
type Cluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object. The name is a DNS label.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes how to reach the remote and which modules to run for it.
	// +required
	Spec ClusterSpec `json:"spec,omitzero"`

	// status is the state of the remote as the hub observed it.
	// +optional
	// +default={"observedGeneration": -1, "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Pending", "message": "Waiting for the hub", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}
	Status ClusterStatus `json:"status,omitzero"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of a list.
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	// items are the Clusters.
	// +required
	Items []Cluster `json:"items"`
}
