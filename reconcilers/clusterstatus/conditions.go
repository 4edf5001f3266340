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

// steps are conditions on the way to Ready, in order.
type steps struct {
	credentials, reachable, identity, modules state.Condition
	// authorized blocks single modules only. Zero if no module declares permissions.
	authorized  state.Condition
	deletesHeld state.Condition // deletesHeld blocks nothing. Zero without holds, Unknown while that is not known.
	lastGood    bool            // lastGood: other credentials than the Secret's are in use.
	hopeless    bool            // hopeless: so many failures that the next retry will fail, too.
}

const (
	messagePaused   = "The Cluster is paused; set spec.state to Active to start it"
	messageStopping = "The app is being stopped"
	messageWaiting  = "Waiting for good credentials"
	messageBefore   = "Waiting for the conditions before this one"
	messageUnasked  = "Not known while the remote is unreachable; see the condition Reachable"
	messageLastGood = "; the last good credentials stay in use"
	messageObserved = "; their writes are dry runs, because of the annotation " + hubv1.AnnotationObserve
)

// stepsOf: the zero Status means that the registry does not know the remote.
func stepsOf(cluster *hubv1.Cluster, found Credentials, info registry.Status) steps {
	s := steps{
		credentials: found.Valid, reachable: versionTold(info.Reachable, info.Version), identity: info.Identity, modules: info.App,
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

// keepsLastGood: the remote refuses the new credentials, or they had expired when they were stored.
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

// agreed removes contradictions: while a remote is unreachable, identity and permissions are unknown and no module
// runs, unless only a new server is unreachable and the previous one stays in use.
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

// refusedAtDial: the hub refused to connect, as for the address of a name. The credentials are the problem.
func refusedAtDial(reachable state.Condition) bool {
	if reachable.Status != metav1.ConditionFalse {
		return false
	}
	switch reachable.Reason {
	case hubv1.ReasonUnreachable, hubv1.ReasonTimedOut, hubv1.ReasonTLSFailed,
		hubv1.ReasonUnauthorized, hubv1.ReasonForbidden, hubv1.ReasonNotHealthy, hubv1.ReasonNotForwarded,
		hubv1.ReasonThrottled, hubv1.ReasonTunnelDown:
		return false
	}
	return true
}

// ready: the first step that is not True is the reason of all later ones.
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

const crashLoop = 5 // crashLoop failures in a row are assumed to need a change. The hub continues to retry.

func isHopeless(info registry.Status) bool {
	if info.App.Status != metav1.ConditionFalse {
		return false
	}
	return info.Restarts >= crashLoop || info.App.Reason == hubv1.ReasonQuarantined
}

// stalled: probably only a user's change helps. A failure is not until it was retried often; nor is a Secret that may
// still be created.
func (s steps) stalled() bool {
	if s.credentials.Status == metav1.ConditionFalse && !s.lastGood {
		reason := s.credentials.Reason
		return reason != hubv1.ReasonSecretNotFound && reason != hubv1.ReasonKeyNotFound
	}
	return s.reachable.Status == metav1.ConditionTrue && (s.identity.Status == metav1.ConditionFalse || s.hopeless)
}

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
