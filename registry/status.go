// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is where a remote stands. Only Ready lends out a client.
type State string

// The states of a remote.
const (
	// StatePending has not been contacted yet.
	StatePending State = "Pending"
	// StateStarting answers its probe; its app is being built, or its caches fill.
	StateStarting State = "Starting"
	// StateReady runs its app: every controller has seen its initial objects.
	StateReady State = "Ready"
	// StateUnreachable does not answer its probe, or rejects the credentials. No app runs; the
	// probe goes on.
	StateUnreachable State = "Unreachable"
	// StateFailed answers, but its app does not run: a module failed and waits for its next try,
	// or the identity of the remote is not the expected one.
	StateFailed State = "Failed"
	// StatePaused was asked to stand still.
	StatePaused State = "Paused"
	// StateStopping is on its way out.
	StateStopping State = "Stopping"
	// StateStopped is gone; the registry has forgotten it.
	StateStopped State = "Stopped"
)

// Reasons that a Facet of Info may have. They are the words of the Cluster object's conditions,
// repeated here because the registry imports nothing of the API.
const (
	ReasonPending           = "Pending"
	ReasonPaused            = "Paused"
	ReasonReady             = "Ready"
	ReasonStarting          = "Starting"
	ReasonRunning           = "Running"
	ReasonProbeSucceeded    = "ProbeSucceeded"
	ReasonFirstContact      = "FirstContact"
	ReasonSameCluster       = "SameCluster"
	ReasonIdentityChanged   = "IdentityChanged"
	ReasonDuplicate         = "DuplicateRegistration"
	ReasonIsHub             = "IsHub"
	ReasonForbidden         = "Forbidden"
	ReasonUnauthorized      = "Unauthorized"
	ReasonBuildFailed       = "BuildFailed"
	ReasonStartFailed       = "StartFailed"
	ReasonModuleFailed      = "ModuleFailed"
	ReasonCacheSyncTimedOut = "CacheSyncTimedOut"
	ReasonWaiting           = "Waiting"
	ReasonStopping          = "Stopping"
	ReasonOverBudget        = "OverBudget"
	ReasonQuarantined       = "Quarantined"
	ReasonAllowed           = "Allowed"
	ReasonRightsMissing     = "RightsMissing"
	ReasonStale             = "Stale"
	ReasonNotInUse          = "NotInUse"
)

// ReasonNoProgress is the reason of a hub part whose state is ModuleDegraded because each worker of one of its controllers
// has been in one reconcile for three heartbeats or longer (see package liveness): a deadlocked one, or one that takes that
// long and ends.
const ReasonNoProgress = "NoProgress"

// Reasons that a module has which waits for its remote, besides ReasonRightsMissing and ReasonWaiting.
const (
	ReasonAPIMissing         = "APIMissing"
	ReasonVersionUnsupported = "VersionUnsupported"
	ReasonHubPartNotRunning  = "HubPartNotRunning"
)

// Facet is one aspect of a remote: whether it is as it should be, and why not.
type Facet struct {
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus
	// Reason is one of the Reason constants, or one that kubeconfig.Classify gives.
	Reason string
	// Message is for the operator: at most 512 bytes, no secret, the same while the problem is
	// the same.
	Message string
}

// ModuleInfo is the state of one module in one app.
type ModuleInfo struct {
	// Name is the module's name.
	Name string
	// State is Running, Starting, Waiting, Failed or Stopped.
	State string
	// Reason and Message say why, when it does not run, or with ReasonStale that it runs on old objects.
	Reason, Message string
	// Controllers are those that the module has added to the manager of its app, in that order. There are none
	// while no app runs.
	Controllers []ControllerInfo
}

// ControllerInfo is the state of one controller of a module in one app.
type ControllerInfo struct {
	// Name is the controller's name. Where a module has two of one name, the later ones have a number.
	Name string
	// State is ModuleStarting, ModuleWaiting or ModuleRunning.
	State string
	// Reason and Message say what it waits for, when it does not run.
	Reason, Message string
}

// States of a module.
const (
	ModuleStopped  = "Stopped"
	ModuleStarting = "Starting"
	ModuleWaiting  = "Waiting"
	ModuleRunning  = "Running"
	ModuleFailed   = "Failed"
)

// Info is a snapshot of one remote. It shares no memory with the registry that changes later;
// its maps and slices must not be written to.
type Info struct {
	Name                ClusterName
	Labels, Annotations map[string]string

	// Owner is an owner reference to the remote's Cluster, for objects that a module makes on the hub for this
	// remote: Kubernetes deletes them when the Cluster has been deleted. It is zero where whoever feeds the
	// registry has set no Config.Owner.
	Owner metav1.OwnerReference

	// Revision is that of the Config which the rest is about.
	Revision string

	// State, Reason and Message summarise the facets. Since is when State last changed.
	State           State
	Reason, Message string
	Since           time.Time

	// Reachable, Identity and App are the facets, in the order in which they matter.
	Reachable, Identity, App Facet

	// Authorized says whether the credentials have the rights that the modules declare. It is zero where
	// none declares any, and blocks only the modules that lack one.
	Authorized Facet

	// Modules are the modules that are wanted for this remote, sorted by name.
	Modules []ModuleInfo
	// ID is what the remote said it is (the UID of its kube-system Namespace), or empty.
	ID string
	// Version is the API server's version at the last contact, such as "v1.36.3".
	Version string
	// Server is the URL in use.
	Server string
	// NewServer says why the wanted endpoint is not in use: False with the reason of its probe. The last good one
	// stays in use. It is zero if the wanted endpoint is in use, or is not known to be bad.
	NewServer Facet
	// CredentialName is the Config.CredentialName of the credential in use, or empty while there is no
	// connection.
	CredentialName string
	// NewCredential says with ReasonNotInUse why the wanted credential is not in use: False if the remote refuses
	// it, Unknown if it could not be tried. The last good one stays in use. It is zero if the wanted credential
	// is in use, or will be in a moment.
	NewCredential Facet
	// Epoch numbers the last app that was started for this name. No two apps of a hub process have
	// the same number, and later ones have higher numbers.
	Epoch int64
	// Restarts counts failures of the app in a row. A failure after ten minutes of health is the
	// first one again.
	Restarts int
	// Zombies counts earlier apps of this name that have not ended within their stop timeout.
	// They can do no harm: nothing that they try to send leaves the hub.
	Zombies int
}

// redact replaces credentials in the messages. The maps and slices are the caller's own.
func (i *Info) redact(redact func(string) string) {
	for _, text := range []*string{
		&i.Message, &i.Reachable.Message, &i.Identity.Message, &i.App.Message, &i.Authorized.Message,
		&i.NewServer.Message, &i.NewCredential.Message,
	} {
		*text = redact(*text)
	}
	for m := range i.Modules {
		i.Modules[m].Message = redact(i.Modules[m].Message)
	}
}
