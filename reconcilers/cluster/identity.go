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

// identifiesFirst: finalizer and identity are one write, which takes the hub's API server several ms. No app runs before that.
func identifiesFirst(cluster *hubv1.Cluster, info registry.Status) bool {
	return !isKnown(cluster) && info.Epoch == 0
}

func isAnonymous(info registry.Status) bool {
	return info.Reachable.Status == metav1.ConditionTrue && info.Identity.Status == metav1.ConditionUnknown
}

// recordContact records which cluster it is, at first contact or when accepted, in an annotation: a status may be lost. With the
// finalizer, if an app may start. It reports whether it has written.
func (r *reconciler) recordContact(ctx context.Context, cluster *hubv1.Cluster, info registry.Status) (recorded bool, err error) {
	id := identityToRecord(cluster, info)
	starts := info.Reachable.Status == metav1.ConditionTrue && info.Identity.Status != metav1.ConditionFalse
	if id == "" && (hasFinalizer(cluster) || !starts) {
		return false, nil
	}
	return true, r.record(ctx, cluster, id)
}

// record adds the finalizer, which is before any start, and the identity, unless it is empty.
func (r *reconciler) record(ctx context.Context, cluster *hubv1.Cluster, id string) error {
	before := cluster.DeepCopy()
	controllerutil.AddFinalizer(cluster, hubv1.FinalizerCluster)
	if id != "" {
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationID, id)
	}
	if err := hubcontroller.Patch(ctx, r.Client, before, cluster); err != nil {
		return fmt.Errorf("record finalizer and identity: %w", err)
	}
	r.memory.of(cluster.Name).written = cluster.DeepCopy()
	return nil
}

const messageIsHub = "This is the hub's own cluster, %s, as the annotation " + hubv1.AnnotationAllowHub +
	" or a flag of the hub allows"

func (r *reconciler) markHub(info registry.Status) state.Condition {
	identity := info.Identity
	if identity.Status == metav1.ConditionTrue && info.ID != "" && info.ID == r.settings.HubID {
		identity.Reason, identity.Message = hubv1.ReasonIsHub, fmt.Sprintf(messageIsHub, info.ID)
	}
	return identity
}

// recordedIdentity is the same cluster once its id is recorded; the registry tells a moment later, with no other difference.
func recordedIdentity(cluster *hubv1.Cluster, info registry.Status) state.Condition {
	identity := info.Identity
	if identity.Reason == hubv1.ReasonFirstContact && info.ID != "" && cluster.Annotations[hubv1.AnnotationID] == info.ID {
		identity.Reason = hubv1.ReasonSameCluster
	}
	return identity
}

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
