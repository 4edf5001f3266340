// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// Reasons of Kubernetes events about a Cluster, besides those of its conditions.
const (
	eventRegistered         = "Registered"
	eventCredentialsRotated = "CredentialsRotated"
	eventIdentityAccepted   = "IdentityAccepted"
	eventDeregistered       = "Deregistered"
	eventAbandoned          = "Abandoned"
	eventObserved           = "Observed"
)

// transition is a change that is worth an event.
type transition struct{ kind, reason, note string }

// recorder records events.
type recorder struct{ events.EventRecorder }

const (
	// eventAction is what all events are about, in the words of the API of events.
	eventAction = "Reconcile"
	// maxNote bounds the text of an event in characters. The API server's limit is 1024 bytes.
	maxNote = 256
)

// tell records an event about an object.
func (r recorder) tell(about runtime.Object, t transition) {
	r.Eventf(about, nil, t.kind, t.reason, eventAction, "%s", cut(t.note, maxNote))
}

// transitions returns what happened between two reports. It is empty if they differ in details
// only, and it never repeats what the report before has said.
func transitions(before, after hubv1.ClusterStatus) []transition {
	var all []transition
	if before.ObservedGeneration <= 0 {
		all = append(all, transition{corev1.EventTypeNormal, eventRegistered, "The hub has taken the Cluster on"})
	}
	if rotated(before.Credentials, after.Credentials) {
		all = append(all, transition{corev1.EventTypeNormal, eventCredentialsRotated, "New credentials are in use"})
	}
	if before.ID != "" && before.ID != after.ID && isTrue(after, hubv1.ConditionIdentityConfirmed) {
		all = append(all, transition{corev1.EventTypeNormal, eventIdentityAccepted, fmt.Sprintf(
			"The Cluster now stands for cluster %s instead of %s", after.ID, before.ID)})
	}
	for _, c := range after.Conditions {
		if kind := worthTelling(c); kind != "" && !hadSame(before, c) {
			all = append(all, transition{kind, c.Reason, c.Message})
		}
	}
	return all
}

// worthTelling returns the type of event that a condition deserves when it is new, or an empty
// string. Ready repeats what the other conditions say, except when it is good.
func worthTelling(c metav1.Condition) string {
	switch {
	case c.Type == hubv1.ConditionReady && (c.Status == metav1.ConditionTrue || c.Reason == hubv1.ReasonPaused):
		return corev1.EventTypeNormal
	case c.Type == hubv1.ConditionReady, c.Type == hubv1.ConditionReconciling, c.Type == hubv1.ConditionStalled:
		return ""
	case c.Status == metav1.ConditionFalse, c.Reason == hubv1.ReasonExpiringSoon:
		return corev1.EventTypeWarning
	}
	return ""
}

func hadSame(status hubv1.ClusterStatus, c metav1.Condition) bool {
	before := meta.FindStatusCondition(status.Conditions, c.Type)
	return before != nil && before.Status == c.Status && before.Reason == c.Reason
}

func isTrue(status hubv1.ClusterStatus, kind string) bool {
	return meta.IsStatusConditionTrue(status.Conditions, kind)
}

func rotated(before, after hubv1.CredentialsStatus) bool {
	return before.Fingerprint != "" && after.Fingerprint != "" && before.Fingerprint != after.Fingerprint
}
