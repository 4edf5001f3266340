// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// identifiesFirst reports whether a Cluster is contacted before anything is written to it, so that its finalizer and its identity
// are one write: each write to a Cluster takes the API server of the hub several milliseconds. No app runs before that.
func identifiesFirst(cluster *hubv1.Cluster, info registry.Status) bool {
	return !isKnown(cluster) && info.Epoch == 0
}

// isAnonymous reports whether a remote responds and does not say which cluster it is.
func isAnonymous(info registry.Status) bool {
	return info.Reachable.Status == metav1.ConditionTrue && info.Identity.Status == metav1.ConditionUnknown
}

// recordContact records which cluster the remote is: at the first contact, and when the operator has accepted another
// cluster. The record is an annotation, because a status may be lost and a safeguard must not be. A remote that responds, and for
// which an app may start, also gets the finalizer. It reports whether it has written.
func (r *reconciler) recordContact(ctx context.Context, cluster *hubv1.Cluster, info registry.Status) (recorded bool, err error) {
	id := identityToRecord(cluster, info)
	starts := info.Reachable.Status == metav1.ConditionTrue && info.Identity.Status != metav1.ConditionFalse
	if id == "" && (hasFinalizer(cluster) || !starts) {
		return false, nil
	}
	before := cluster.DeepCopy()
	controllerutil.AddFinalizer(cluster, hubv1.FinalizerCluster)
	if id != "" {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationID, id)
	}
	if err := hubcontroller.Patch(ctx, r.Client, before, cluster); err != nil {
		return false, fmt.Errorf("record the identity: %w", err)
	}
	r.memory.of(cluster.Name).written = cluster.DeepCopy()
	return true, nil
}

// messageIsHub is the message for a remote that is the hub's own cluster with the permission of the operator.
const messageIsHub = "This is the hub's own cluster, %s, as the annotation " + hubv1.AnnotationAllowHub +
	" or a flag of the hub allows"

// markHub returns the identity of a remote, marked if the remote is the hub's own cluster.
func (r *reconciler) markHub(info registry.Status) state.Condition {
	identity := info.Identity
	if identity.Status == metav1.ConditionTrue && info.ID != "" && info.ID == r.settings.HubID {
		identity.Reason, identity.Message = hubv1.ReasonIsHub, fmt.Sprintf(messageIsHub, info.ID)
	}
	return identity
}

// recordedIdentity returns the identity of a remote. After the first contact with a cluster whose id is recorded meanwhile it is the
// same cluster; the registry tells so a moment later, in a snapshot that differs in nothing else.
func recordedIdentity(cluster *hubv1.Cluster, info registry.Status) state.Condition {
	identity := info.Identity
	if identity.Reason == hubv1.ReasonFirstContact && info.ID != "" && cluster.Annotations[hubv1.AnnotationID] == info.ID {
		identity.Reason = hubv1.ReasonSameCluster
	}
	return identity
}

// identityToRecord returns the id to record, or an empty string if it is recorded already, is not known, or is not trusted.
func identityToRecord(cluster *hubv1.Cluster, info registry.Status) string {
	known := cluster.Annotations[hubv1.AnnotationID]
	accepted := cluster.Annotations[hubv1.AnnotationAcceptID]
	switch {
	case info.Identity.Status != metav1.ConditionTrue, info.ID == known:
		return ""
	case known != "" && info.ID != accepted:
		return ""
	}
	return info.ID
}
