// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// recordIdentity records which cluster the remote is: at the first contact, and when the operator has accepted another
// cluster. The record is an annotation, because a status may be lost and a safeguard must not be. It reports whether it has written.
func (r *reconciler) recordIdentity(ctx context.Context, cluster *hubv1.Cluster, info registry.Status) (recorded bool, err error) {
	id := identityToRecord(cluster, info)
	if id == "" {
		return false, nil
	}
	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationID, id)
	if err := hubcontroller.Patch(ctx, r.Client, before, cluster); err != nil {
		return false, fmt.Errorf("record the identity: %w", err)
	}
	r.written.note(cluster.DeepCopy())
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

// identityToRecord returns the id to record, or an empty string if it is recorded already, is not known, or is not
// trusted.
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
