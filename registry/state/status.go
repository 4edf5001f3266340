// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// State is the state of a remote. WithClient lends a client of a Ready one only.
type State string

// The states of a remote.
const (
	// StatePending: not contacted yet.
	StatePending State = "Pending"
	// StateStarting: the probe succeeds, and the app is built or its caches are filled.
	StateStarting State = "Starting"
	// StateWarm: the app has every initial object and waits, and the one before it has ended; see Desired.Warm. The
	// condition App is not True, and the modules are Starting.
	StateWarm State = "Warm"
	// StateReady: the app runs, and every controller has seen its initial objects.
	StateReady State = "Ready"
	// StateUnreachable: the probe fails, or the remote rejects the credentials. No app runs; the probe continues.
	StateUnreachable State = "Unreachable"
	// StateFailed: the probe succeeds and the app does not run. A module failed and waits for its next try, or the
	// remote is not the expected cluster.
	StateFailed State = "Failed"
	// StatePaused: Desired.Paused is set.
	StatePaused State = "Paused"
	// StateStopping: the remote is being removed.
	StateStopping State = "Stopping"
	// StateStopped: the registry has removed the remote.
	StateStopped State = "Stopped"
)

// Reasons of the conditions, repeated here from the Cluster API, which the registry does not import.
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

// ReasonNoProgress means that work waits for a hub part's controller and no worker has asked for more for 30 s (see package
// liveness): each is in a reconcile that is deadlocked, or takes that long.
const ReasonNoProgress = "NoProgress"

// Reasons of a module that waits for its remote, beside ReasonRightsMissing and ReasonWaiting.
const (
	// ReasonAPIMissing: the remote does not serve an API that the module requires.
	ReasonAPIMissing = "APIMissing"
	// ReasonVersionUnsupported: the module does not support the version of the remote.
	ReasonVersionUnsupported = "VersionUnsupported"
	// ReasonHubPartNotRunning: the module needs a shared value of a hub part that does not run.
	ReasonHubPartNotRunning = "HubPartNotRunning"
)

// Condition is one aspect of a remote.
type Condition struct {
	Status metav1.ConditionStatus
	// Reason is a Reason constant or one of kubeconfig.Classify.
	Reason string
	// Message is for operators: at most 512 bytes, without secrets, stable while the problem is the same.
	Message string
	// Problem is for advice that is not in Message.
	Problem Problem
}

// ModuleStatus is the state of one module in one app.
type ModuleStatus struct {
	Name string
	// State is Running, Starting, Waiting, Failed or Stopped.
	State string
	// Reason and Message say why the module does not run, or with ReasonStale that it runs on old objects.
	Reason, Message string
	Problem         Problem
	// Controllers are in the order in which the module added them; empty while no app runs.
	Controllers []ControllerStatus
}

// ControllerStatus is the state of one controller of a module in one app.
type ControllerStatus struct {
	// Name is the controller's. Of two with one name, the later has a number.
	Name string
	// State is ModuleStarting, ModuleWaiting or ModuleRunning.
	State string
	// Reason and Message say what the controller waits for.
	Reason, Message string
	Problem         Problem
}

// States of a module.
const (
	ModuleStopped  = "Stopped"
	ModuleStarting = "Starting"
	ModuleWaiting  = "Waiting"
	ModuleRunning  = "Running"
	ModuleFailed   = "Failed"
)

// Status is a snapshot of one remote. It shares no memory with the registry that changes later; its maps and slices
// must not be changed.
type Status struct {
	Name                ClusterName
	Labels, Annotations map[string]string

	// Owner is an owner reference to the Cluster for objects that a module creates on the hub: Kubernetes deletes them
	// with the Cluster. Zero if Desired.Owner is.
	Owner metav1.OwnerReference

	// Revision is that of the Desired that this Status is about.
	Revision string

	// State, Reason, Message and Problem summarize the conditions. Since is when State last changed.
	State           State
	Reason, Message string
	Problem         Problem
	Since           time.Time

	// The first condition that is not as it should be decides the State; an Unknown Identity does not count. App is
	// never True while the remote is warm.
	Reachable, Identity, App Condition

	// Authorized is whether the credentials have the declared permissions; zero if none are declared. A missing one
	// blocks only the modules that declare it.
	Authorized Condition

	// DeletesHeld is True while deletes in the remote are held, Unknown until the stored holds have been read, and
	// otherwise zero. It does not count for State.
	DeletesHeld Condition

	// Modules are the selected ones, sorted by name.
	Modules []ModuleStatus
	// ID is the UID of the remote's kube-system Namespace; empty if unknown.
	ID string
	// Version is the API server's at the last contact, such as "v1.36.3".
	Version string
	// Server is the URL in use.
	Server string
	// NewServer says why the desired endpoint is not in use: False with the reason of its probe, while the last working
	// one stays in use. Otherwise zero.
	NewServer Condition
	// CredentialName is the Desired.CredentialName of the credential in use; empty without a connection.
	CredentialName string
	// NewCredential says with ReasonNotInUse why the desired credential is not in use: False if the remote refuses it,
	// Unknown if it could not be tried, while the last accepted one stays in use. Otherwise, and during a trial, zero.
	NewCredential Condition
	// Epoch is the last app started for this name. Numbers are unique in a hub process, and increase.
	Epoch int64
	// Restarts counts consecutive failures of the app, from one again after ten minutes of health.
	Restarts int
	// Zombies counts fenced apps of this name that have not ended within their stop timeout.
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

// maxMessage is how many bytes of text a Condition carries.
const maxMessage = 512

// Sanitize returns text as a condition can hold it: one line of printable characters, at most 512 bytes.
func Sanitize(text string) string { return kubeconfig.OneLine(text, maxMessage) }
