// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// State is the state of a remote. WithClient lends a client only of a remote that is Ready.
type State string

// The states of a remote.
const (
	// StatePending means that the remote has not been contacted yet.
	StatePending State = "Pending"
	// StateStarting means that the probe succeeds, and the app is being built or its caches are being filled.
	StateStarting State = "Starting"
	// StateWarm means that the app has every initial object and waits, and that the app before it has ended; see
	// Desired.Warm. The condition App is not True, and the modules are Starting.
	StateWarm State = "Warm"
	// StateReady means that the app runs: every controller has seen its initial objects.
	StateReady State = "Ready"
	// StateUnreachable means that the probe fails or that the remote rejects the credentials. No app runs; the
	// probe continues.
	StateUnreachable State = "Unreachable"
	// StateFailed means that the probe succeeds and the app does not run: a module failed and waits for its next
	// try, or the remote is not the expected cluster.
	StateFailed State = "Failed"
	// StatePaused means that Desired.Paused is set.
	StatePaused State = "Paused"
	// StateStopping means that the remote is being removed.
	StateStopping State = "Stopping"
	// StateStopped means that the registry has removed the remote.
	StateStopped State = "Stopped"
)

// Reasons of the conditions in a Status. The Cluster object's conditions have the same reasons; they are repeated here
// because the registry does not import the Cluster API.
const (
	ReasonPending           = "Pending"
	ReasonPaused            = "Paused"
	ReasonReady             = "Ready"
	ReasonStarting          = "Starting"
	ReasonRunning           = "Running"
	ReasonProbeSucceeded    = "ProbeSucceeded"
	ReasonThrottled         = "Throttled"
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

// ReasonNoProgress is the reason of a hub part that is Degraded because each worker of one of its controllers has been in
// one reconcile for three heartbeats or longer (see package liveness): the reconcile is deadlocked, or takes that long.
const ReasonNoProgress = "NoProgress"

// Reasons of a module that waits for its remote; ReasonRightsMissing and ReasonWaiting are others.
const (
	// ReasonAPIMissing: the remote does not serve an API that the module requires.
	ReasonAPIMissing = "APIMissing"
	// ReasonVersionUnsupported: the module does not support the version of the remote.
	ReasonVersionUnsupported = "VersionUnsupported"
	// ReasonHubPartNotRunning: the module needs a shared value of a hub part that does not run.
	ReasonHubPartNotRunning = "HubPartNotRunning"
)

// Condition is one aspect of a remote, as in the conditions of a Kubernetes object.
type Condition struct {
	// Status is True, False or Unknown.
	Status metav1.ConditionStatus
	// Reason is one of the Reason constants or a reason of kubeconfig.Classify.
	Reason string
	// Message is for the operator: at most 512 bytes, without secrets, and stable while the problem is
	// the same.
	Message string
	// Problem identifies the problem, for advice that is not in Message.
	Problem Problem
}

// ModuleStatus is the state of one module in one app.
type ModuleStatus struct {
	// Name is the module's name.
	Name string
	// State is Running, Starting, Waiting, Failed or Stopped.
	State string
	// Reason and Message say why the module does not run, or with ReasonStale that it runs on old objects.
	Reason, Message string
	// Problem identifies the problem, for advice that is not in Message.
	Problem Problem
	// Controllers are the controllers of the module in the order in which it added them to the app's manager. The
	// list is empty while no app runs.
	Controllers []ControllerStatus
}

// ControllerStatus is the state of one controller of a module in one app.
type ControllerStatus struct {
	// Name is the controller's name. If two controllers of a module have one name, the later one has a number.
	Name string
	// State is ModuleStarting, ModuleWaiting or ModuleRunning.
	State string
	// Reason and Message say what the controller waits for while it does not run.
	Reason, Message string
	// Problem identifies the problem, for advice that is not in Message.
	Problem Problem
}

// States of a module.
const (
	ModuleStopped  = "Stopped"
	ModuleStarting = "Starting"
	ModuleWaiting  = "Waiting"
	ModuleRunning  = "Running"
	ModuleFailed   = "Failed"
)

// Status is a snapshot of one remote. It shares no memory with the registry that changes later;
// its maps and slices must not be written to.
type Status struct {
	Name                ClusterName
	Labels, Annotations map[string]string

	// Owner is an owner reference to the remote's Cluster, for the objects that a module creates on the hub for this
	// remote: Kubernetes deletes them when the Cluster has been deleted. It is zero if Desired.Owner is.
	Owner metav1.OwnerReference

	// Revision is the Desired.Revision that this Status is about.
	Revision string

	// State, Reason, Message and Problem summarize the conditions. Since is the time of the last change of State.
	State           State
	Reason, Message string
	Problem         Problem
	Since           time.Time

	// Reachable, Identity and App are the conditions; the first one that is not as it should be decides the State. An
	// Identity that is Unknown does not count. App is never True while the remote is warm.
	Reachable, Identity, App Condition

	// Authorized is whether the credentials have the permissions that the modules declare. It is zero if no module
	// declares any. A missing permission blocks only the modules that declare it.
	Authorized Condition

	// DeletesHeld is True while deletes of a module in the remote are held, Unknown until the holds that are stored have been
	// read, and zero otherwise. It does not count for State.
	DeletesHeld Condition

	// Modules are the modules selected for this remote, sorted by name.
	Modules []ModuleStatus
	// ID identifies the remote's cluster: the UID of its kube-system Namespace, or empty if it is unknown.
	ID string
	// Version is the API server's version at the last contact, such as "v1.36.3".
	Version string
	// Server is the URL of the API server in use.
	Server string
	// NewServer says why the desired endpoint is not in use: False with the reason of its probe. The last working
	// endpoint stays in use. NewServer is zero if the desired endpoint is in use or has not failed.
	NewServer Condition
	// CredentialName is the Desired.CredentialName of the credential in use, or empty without a connection.
	CredentialName string
	// NewCredential says with ReasonNotInUse why the desired credential is not in use: False if the remote refuses
	// it, Unknown if it could not be tried. The last accepted credential stays in use. NewCredential is zero if the
	// desired credential is in use or is being tried.
	NewCredential Condition
	// Epoch is the number of the last app that was started for this name. Numbers are unique in a hub process, and
	// later apps have higher numbers.
	Epoch int64
	// Restarts counts consecutive failures of the app. It starts again at one after ten minutes of health.
	Restarts int
	// Zombies counts earlier apps of this name that have not ended within their stop timeout. They are fenced: the
	// hub sends none of their requests.
	Zombies int
}

// Redact replaces the credentials in the messages of s, in place.
func (s *Status) Redact(redact func(string) string) {
	for _, text := range []*string{
		&s.Message, &s.Reachable.Message, &s.Identity.Message, &s.App.Message, &s.Authorized.Message,
		&s.NewServer.Message, &s.NewCredential.Message,
	} {
		*text = redact(*text)
	}
	for m := range s.Modules {
		s.Modules[m].Message = redact(s.Modules[m].Message)
	}
}

// MatchLabels returns a function that selects the remotes whose labels a selector matches.
func MatchLabels(selector labels.Selector) func(Status) bool {
	return func(s Status) bool { return selector.Matches(labels.Set(s.Labels)) }
}
