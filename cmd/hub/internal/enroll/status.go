// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// readyOf returns the condition Ready of a Cluster, for its present generation.
func readyOf(ctx context.Context, hub *access.Cluster, name string) (metav1.Condition, error) {
	var cluster hubv1.Cluster
	pending := metav1.Condition{Status: metav1.ConditionUnknown, Reason: hubv1.ReasonPending, Message: "Waiting for the hub"}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, &cluster); err != nil {
		return pending, hub.Explain(err)
	}
	ready := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionReady)
	if ready == nil || cluster.Status.ObservedGeneration != cluster.Generation {
		return pending, nil
	}
	return *ready, nil
}
