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
	// authorized is beside the way: it stands in that of single modules only. Zero where no module
	// declares what it needs.
	authorized state.Condition
	// lastGood says that the credentials in the Secret are not in use, and the last good ones are.
	lastGood bool
	// hopeless says that the modules failed too often for another try to be worth waiting for.
	hopeless bool
}

// Messages of conditions that the registry has no words for.
const (
	messagePaused   = "The Cluster is paused; set spec.state to Active to start it"
	messageStopping = "The app is being stopped"
	messageWaiting  = "Waiting for good credentials"
	messageBefore   = "Waiting for the conditions before this one"
	messageUnasked  = "Not known while the remote is not reachable; see the condition Reachable"
	messageLastGood = "; the last good ones stay in use"
	messageObserved = "; what they write is tried and not done, because of the annotation " + hubv1.AnnotationObserve
)

// stepsOf puts together what is known of the Secret and of the remote. The zero Status stands for a
// remote that the registry does not know.
func stepsOf(cluster *hubv1.Cluster, found Credentials, info registry.Status) steps {
	s := steps{
		credentials: found.Valid, reachable: info.Reachable, identity: info.Identity, modules: info.App,
		authorized: info.Authorized,
	}
	if refusedAtDial(info.Reachable) {
		s.credentials, s.reachable = info.Reachable, state.Condition{}
	}
	switch {
	case IsPaused(cluster):
		s.reachable, s.modules = pausedCondition(), pausedCondition()
	case info.State == state.StatePaused: // It goes on when there are good credentials.
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

// keepsLastGood reports whether other credentials than those in the Secret are in use, because the remote refuses
// these, or because they had expired when they came.
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

// agreed returns the steps without what contradicts another one. While the remote cannot be asked nobody knows
// whether it still is the one that it was, and what the credentials may do there; and no module runs there, unless it
// is a new server that cannot be reached and the one before stays in use.
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

// refusedAtDial reports whether the remote was not even tried, because of what was found out only
// then: which address a name leads to, for one. That is about the credentials.
func refusedAtDial(reachable state.Condition) bool {
	if reachable.Status != metav1.ConditionFalse {
		return false
	}
	switch reachable.Reason {
	case hubv1.ReasonUnreachable, hubv1.ReasonTimedOut, hubv1.ReasonTLSFailed,
		hubv1.ReasonUnauthorized, hubv1.ReasonForbidden, hubv1.ReasonNotHealthy:
		return false
	}
	return true
}

// ready sums up: the first step that is not taken stands for all that come after it.
func (s steps) ready() state.Condition {
	if s.identity.Reason == hubv1.ReasonForbidden {
		s.identity.Status = metav1.ConditionTrue // Not being allowed to see it blocks nothing.
	}
	if s.lastGood {
		s.credentials.Status = metav1.ConditionTrue // The ones in use are.
	}
	for _, step := range []state.Condition{s.credentials, s.reachable, s.identity, s.modules} {
		if step.Status != metav1.ConditionTrue {
			return step
		}
	}
	return state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonReady, Message: s.modules.Message}
}

// crashLoop is the number of failures in a row after which an app counts as one that will not run
// before somebody does something about it. It is tried again all the same.
const crashLoop = 5

// isHopeless reports whether an app has failed that often, or made the hub fail.
func isHopeless(info registry.Status) bool {
	if info.App.Status != metav1.ConditionFalse {
		return false
	}
	return info.Restarts >= crashLoop || info.App.Reason == hubv1.ReasonQuarantined
}

// stalled reports whether nothing is likely to change until somebody changes something. What the hub
// tries again by itself is not, unless it has tried often; neither is a Secret that may still come,
// or be filled.
func (s steps) stalled() bool {
	if s.credentials.Status == metav1.ConditionFalse && !s.lastGood {
		reason := s.credentials.Reason
		return reason != hubv1.ReasonSecretNotFound && reason != hubv1.ReasonKeyNotFound
	}
	return s.reachable.Status == metav1.ConditionTrue && (s.identity.Status == metav1.ConditionFalse || s.hopeless)
}

// running says how many modules run, for people.
func running(modules []state.ModuleStatus) string {
	n := countRunning(modules)
	switch {
	case n < len(modules):
		return fmt.Sprintf("%d of %d modules are running; status.modules says what the others wait for", n, len(modules))
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
