// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry/state"
)

// conditionsOf has one order. A condition of the same status keeps its transition time.
func conditionsOf(cluster *hubv1.Cluster, s steps) []metav1.Condition {
	ready := summaryOf(cluster, s)
	var after []metav1.Condition
	set := func(kind string, f state.Condition) {
		if before := meta.FindStatusCondition(cluster.Status.Conditions, kind); before != nil {
			after = append(after, *before)
		}
		meta.SetStatusCondition(&after, metav1.Condition{
			Type: kind, Status: f.Status, Reason: f.Reason,
			Message:            cut(WithAdvice(f.Message, f.Problem), hubv1.MaxConditionMessageLength),
			ObservedGeneration: cluster.Generation,
		})
	}
	set(hubv1.ConditionReady, ready)
	set(hubv1.ConditionCredentialsValid, s.credentials)
	set(hubv1.ConditionReachable, s.reachable)
	set(hubv1.ConditionIdentityConfirmed, s.identity)
	if s.authorized.Status != "" {
		set(hubv1.ConditionAuthorized, s.authorized)
	}
	set(hubv1.ConditionModulesReady, s.modules)
	before := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionDeletesHeld)
	switch {
	case s.deletesHeld.Status == metav1.ConditionTrue:
		set(hubv1.ConditionDeletesHeld, s.deletesHeld)
	case s.deletesHeld.Status == metav1.ConditionUnknown && before != nil: // A hold outlives the process that has shown it.
		after = append(after, *before)
	}
	if kind, f := progressOf(ready, s); kind != "" {
		set(kind, f)
	}
	return after
}

func summaryOf(cluster *hubv1.Cluster, s steps) state.Condition {
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return unknown(hubv1.ReasonStopping, messageStopping)
	case IsPaused(cluster):
		return pausedCondition()
	}
	return s.ready()
}

// progressOf returns Reconciling, Stalled, or an empty type: tools wait or give up by it.
func progressOf(ready state.Condition, s steps) (string, state.Condition) {
	doing := state.Condition{Status: metav1.ConditionTrue, Reason: hubv1.ReasonProgressing, Message: ready.Message, Problem: ready.Problem}
	switch {
	case ready.Status == metav1.ConditionTrue, ready.Reason == hubv1.ReasonPaused:
		return "", state.Condition{}
	case ready.Status == metav1.ConditionUnknown:
		return hubv1.ConditionReconciling, doing
	case s.stalled():
		doing.Reason = ready.Reason
		return hubv1.ConditionStalled, doing
	}
	doing.Reason = hubv1.ReasonProgressingWithRetry
	return hubv1.ConditionReconciling, doing
}

// ourTypes are those of conditionsOf, in its order. Others belong to other writers.
func ourTypes() []string {
	return []string{
		hubv1.ConditionReady, hubv1.ConditionCredentialsValid, hubv1.ConditionReachable,
		hubv1.ConditionIdentityConfirmed, hubv1.ConditionAuthorized, hubv1.ConditionModulesReady,
		hubv1.ConditionDeletesHeld, hubv1.ConditionReconciling, hubv1.ConditionStalled,
	}
}
