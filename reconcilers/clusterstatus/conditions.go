// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/observe"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// steps are the conditions on the way to Ready, in the order in which they are reached.
type steps struct {
	credentials, reachable, identity, modules state.Condition
	// authorized is not on the way to Ready: it blocks single modules only. Zero if no module declares
	// permissions.
	authorized state.Condition
	// deletesHeld is not on the way to Ready either. Zero if no deletes are held, Unknown while that is not known.
	deletesHeld state.Condition
	// lastGood means that the last good credentials are in use, and not those in the Secret.
	lastGood bool
	// hopeless means that the modules have failed so often that the next retry will probably fail, too.
	hopeless bool
}

// Messages of conditions that the registry does not have.
const (
	messagePaused   = "The Cluster is paused; set spec.state to Active to start it"
	messageStopping = "The app is being stopped"
	messageWaiting  = "Waiting for good credentials"
	messageBefore   = "Waiting for the conditions before this one"
	messageUnasked  = "Not known while the remote is unreachable; see the condition Reachable"
	messageLastGood = "; the last good credentials stay in use"
	messageObserved = "; their writes are dry runs, because of the annotation " + hubv1.AnnotationObserve
)

// stepsOf combines the credentials and the snapshot of the remote. The zero Status means that the registry does not know
// the remote.
func stepsOf(cluster *hubv1.Cluster, found Credentials, info registry.Status) steps {
	s := steps{
		credentials: found.Valid, reachable: info.Reachable, identity: info.Identity, modules: info.App,
		authorized: info.Authorized, deletesHeld: info.DeletesHeld,
	}
	if refusedAtDial(info.Reachable) {
		s.credentials, s.reachable = info.Reachable, state.Condition{}
	}
	switch {
	case IsPaused(cluster):
		s.reachable, s.modules = pausedCondition(), pausedCondition()
	case info.State == state.StatePaused: // The app starts when there are good credentials.
		s.reachable, s.modules = state.Condition{}, state.Condition{}
	}
	if s.modules.Status == metav1.ConditionTrue {
		if info.App.Reason != hubv1.ReasonStale {
			s.modules.Message = running(info.Modules)
		}
		if observe.IsObserved(info.Annotations) {
			s.modules.Message += messageObserved
		}
	}
	s.hopeless, s.lastGood = isHopeless(info), keepsLastGood(s.credentials.Reason, found.Reported.Fingerprint, info)
	if s.lastGood && s.credentials.Reason == hubv1.ReasonExpired && s.credentials.Status == metav1.ConditionFalse {
		s.credentials.Message += messageLastGood
	}
	for _, facet := range []*state.Condition{&s.reachable, &s.identity, &s.modules} {
		if facet.Status == "" {
			*facet = unknown(hubv1.ReasonPending, messageWaiting)
		}
	}
	return s.agreed(info)
}

// keepsLastGood reports whether other credentials than those in the Secret are in use, because the remote refuses the
// new credentials, or because they had already expired when they were stored.
func keepsLastGood(reason, fingerprint string, info registry.Status) bool {
	switch reason {
	case hubv1.ReasonNotInUse:
		return true
	case hubv1.ReasonExpired:
		inUse := info.CredentialName
		return info.State != state.StatePaused && inUse != "" && inUse != fingerprint
	}
	return false
}

// agreed returns the steps without contradictions. While the remote is unreachable, its identity and the permissions of
// the credentials are unknown, and no module runs there, unless only a new server is unreachable and the previous server
// stays in use.
func (s steps) agreed(info registry.Status) steps {
	if s.reachable.Status != metav1.ConditionTrue {
		if s.identity.Status == metav1.ConditionTrue {
			s.identity = unknown(s.reachable.Reason, messageUnasked)
		}
		if s.authorized.Status != "" {
			s.authorized = unknown(s.reachable.Reason, messageUnasked)
		}
	}
	barred := s.reachable.Status != metav1.ConditionTrue || s.identity.Status == metav1.ConditionFalse
	if s.modules.Status == metav1.ConditionTrue && barred && info.State != state.StateReady {
		s.modules = unknown(hubv1.ReasonPending, messageBefore)
	}
	return s
}

// refusedAtDial reports whether the hub refused to connect for a reason that it found at the time of the connection, such
// as the address of a name. That is a problem of the credentials.
func refusedAtDial(reachable state.Condition) bool {
	if reachable.Status != metav1.ConditionFalse {
		return false
	}
	switch reachable.Reason {
	case hubv1.ReasonUnreachable, hubv1.ReasonTimedOut, hubv1.ReasonTLSFailed,
		hubv1.ReasonUnauthorized, hubv1.ReasonForbidden, hubv1.ReasonNotHealthy, hubv1.ReasonNotForwarded,
		hubv1.ReasonThrottled:
		return false
	}
	return true
}

// ready sums up the steps: the first step that is not True is the reason of all later ones.
func (s steps) ready() state.Condition {
	if s.identity.Reason == hubv1.ReasonForbidden {
		s.identity.Status = metav1.ConditionTrue // An identity that the hub may not read blocks nothing.
	}
	if s.lastGood {
		s.credentials.Status = metav1.ConditionTrue // The credentials in use are good.
	}
	for _, step := range []state.Condition{s.credentials, s.reachable, s.identity, s.modules} {
		if step.Status != metav1.ConditionTrue {
			return step
		}
	}
	return state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonReady, Message: s.modules.Message}
}

// crashLoop is the number of failures in a row after which an app is assumed to need a change before it runs. The hub
// continues to retry it.
const crashLoop = 5

// isHopeless reports whether an app has failed that often, or is quarantined.
func isHopeless(info registry.Status) bool {
	if info.App.Status != metav1.ConditionFalse {
		return false
	}
	return info.Restarts >= crashLoop || info.App.Reason == hubv1.ReasonQuarantined
}

// stalled reports whether the state will probably not change without a change by a user. A failure that the hub retries
// is not stalled until it has retried often; neither is a Secret that may still be created or filled.
func (s steps) stalled() bool {
	if s.credentials.Status == metav1.ConditionFalse && !s.lastGood {
		reason := s.credentials.Reason
		return reason != hubv1.ReasonSecretNotFound && reason != hubv1.ReasonKeyNotFound
	}
	return s.reachable.Status == metav1.ConditionTrue && (s.identity.Status == metav1.ConditionFalse || s.hopeless)
}

// running returns the message about the number of modules that run.
func running(modules []state.ModuleStatus) string {
	n := countRunning(modules)
	switch {
	case n < len(modules):
		return fmt.Sprintf("%d of %d modules are running; status.modules shows what the others wait for", n, len(modules))
	case n == 0:
		return "No module is selected"
	case n == 1:
		return "1 module is running"
	}
	return fmt.Sprintf("%d modules are running", n)
}

func countRunning(modules []state.ModuleStatus) int {
	n := 0
	for _, m := range modules {
		if m.State == state.ModuleRunning {
			n++
		}
	}
	return n
}

// IsPaused reports whether the Cluster is to be paused.
func IsPaused(cluster *hubv1.Cluster) bool { return cluster.Spec.State == hubv1.ClusterPaused }

func pausedCondition() state.Condition { return unknown(hubv1.ReasonPaused, messagePaused) }

func unknown(reason, message string) state.Condition {
	return state.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}
