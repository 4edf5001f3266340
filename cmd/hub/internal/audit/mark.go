// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// FieldManager owns the mark. An apply of one condition by the hub's own would remove the rest of its report.
const FieldManager = "clusterfx-audit"

const eventAction = "Audit"

type writer struct {
	client client.Client
	events events.EventRecorder
}

// mark returns a conflict if the Cluster has changed since it was compared. The Cluster is the cache's and not changed.
func (w *writer) mark(ctx context.Context, cluster *hubv1.Cluster, message string) error {
	ready := marked(cluster, message)
	desired := hubac.Cluster(cluster.Name).WithResourceVersion(cluster.ResourceVersion).WithStatus(
		hubac.ClusterStatus().WithConditions(metav1ac.Condition().
			WithType(ready.Type).
			WithStatus(ready.Status).
			WithReason(ready.Reason).
			WithMessage(ready.Message).
			WithObservedGeneration(ready.ObservedGeneration).
			WithLastTransitionTime(ready.LastTransitionTime)))
	if err := w.client.Status().Apply(ctx, desired, client.FieldOwner(FieldManager), client.ForceOwnership); err != nil {
		return err
	}
	w.events.Eventf(cluster, nil, corev1.EventTypeWarning, hubv1.ReasonRunnerLost, eventAction, "%s", message)
	return nil
}

// marked sets the time of the change to now, unless Ready was Unknown.
func marked(cluster *hubv1.Cluster, message string) metav1.Condition {
	var conditions []metav1.Condition
	if before := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReady); before != nil {
		conditions = append(conditions, *before)
	}
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: hubv1.ConditionReady, Status: metav1.ConditionUnknown, Reason: hubv1.ReasonRunnerLost, Message: message,
		ObservedGeneration: cluster.Generation,
	})
	return conditions[0]
}
