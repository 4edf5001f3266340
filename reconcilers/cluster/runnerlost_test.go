// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// A Cluster that was marked, because its runner seemed to have ended, is Ready again with the next report of the runner, and
// nothing else of its status changes.
func TestReport_TakesTheMarkBack(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	before := h.expectReady(name)
	for range 2 { // The second mark meets the fields that the report left to the auditor.
		marked := h.get(name)
		h.must(h.Status().Apply(t.Context(), hubac.Cluster(name).WithResourceVersion(marked.ResourceVersion).WithStatus(
			hubac.ClusterStatus().WithConditions(metav1ac.Condition().
				WithType(hubv1.ConditionReady).WithStatus(metav1.ConditionUnknown).WithReason(hubv1.ReasonRunnerLost).
				WithMessage("The runner has ended").WithObservedGeneration(marked.Generation).WithLastTransitionTime(metav1.Now()))),
			client.FieldOwner("clusterfx-audit"), client.ForceOwnership))
		after := h.expectReady(name)
		if len(after.Status.Conditions) != len(before.Status.Conditions) || after.Status.Version != before.Status.Version ||
			len(after.Status.Modules) != len(before.Status.Modules) {
			t.Errorf("the status was %+v and is %+v", before.Status, after.Status)
		}
	}
}
