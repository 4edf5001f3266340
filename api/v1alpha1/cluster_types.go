// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
