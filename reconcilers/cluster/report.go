// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
)

// inSeconds returns a status with times as the API server stores them, so that what it stored can be compared.
func inSeconds(status hubv1.ClusterStatus) hubv1.ClusterStatus {
	status.Conditions = slices.Clone(status.Conditions)
	for i := range status.Conditions {
		at := &status.Conditions[i].LastTransitionTime
		at.Time = at.Truncate(time.Second)
	}
	status.Runner.Since.Time = status.Runner.Since.Truncate(time.Second)
	return status
}

// report writes a changed status and events. It returns a conflict if the Cluster is not the latest version.
func (r *reconciler) report(ctx context.Context, cluster *hubv1.Cluster, status hubv1.ClusterStatus) error {
	before, status := clusterstatus.Ours(cluster.Status), inSeconds(status)
	s := r.memory.of(cluster.Name)
	isLeftOut := s.left.version == cluster.ResourceVersion && equality.Semantic.DeepEqual(s.left.status, status)
	if isLeftOut || equality.Semantic.DeepEqual(before, status) {
		return nil
	}
	wished := cluster.DeepCopy()
	wished.Status = clusterstatus.Merged(cluster.Status, status)
	patch := client.MergeFromWithOptions(cluster, client.MergeFromWithOptimisticLock{})
	data, err := patch.Data(wished)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	// The response replaces nothing but fields that it has, so it is not read into the Cluster that was wished.
	stored := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name}}
	err = r.Status().Patch(ctx, stored, client.RawPatch(patch.Type(), data), client.FieldOwner(hubcontroller.FieldManager), lenient)
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	s.written = stored
	after := clusterstatus.Ours(stored.Status)
	if !equality.Semantic.DeepEqual(after, status) {
		s.left = leftOut{stored.ResourceVersion, status}
		r.tellMissing(ctx)
	}
	if stored.ResourceVersion == cluster.ResourceVersion {
		return nil // The CRD lacks all fields that have changed.
	}
	for _, t := range transitions(before, after) {
		log.FromContext(ctx).Info("Cluster changed", "reason", t.Reason, "note", t.Note)
		r.events.Record(cluster, t)
	}
	return nil
}
