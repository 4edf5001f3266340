// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/event"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

func node(cpu string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")},
		Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: ready},
		},
	}}
}

func TestCount(t *testing.T) {
	t.Parallel()
	sum := count([]corev1.Node{node("1500m", corev1.ConditionTrue), node("1", corev1.ConditionUnknown), {}})
	if sum.nodes != 3 || sum.readyNodes != 1 || sum.cpu.String() != "2500m" || sum.memory.String() != "2Gi" {
		t.Errorf("got %d nodes, %d ready, %s, %s", sum.nodes, sum.readyNodes, &sum.cpu, &sum.memory)
	}
	if sum.isReported(hubv1.InventoryStatus{}) {
		t.Error("isReported is true for an inventory that was never written")
	}
	if none := count(nil); none.isReported(hubv1.InventoryStatus{}) {
		t.Error("isReported is true for an empty inventory that was never written")
	}
}

func TestRelevant(t *testing.T) {
	t.Parallel()
	before := node("1", corev1.ConditionTrue)
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat is not":  {func(n *corev1.Node) { n.Status.Conditions[1].Message = "still there" }, false},
		"a label is not":      {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, false},
		"a lost Node is":      {func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown }, true},
		"another capacity is": {func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := before.DeepCopy()
			tc.change(after)
			if got := relevant().Update(event.UpdateEvent{ObjectOld: &before, ObjectNew: after}); got != tc.want {
				t.Errorf("relevant: got %t", got)
			}
		})
	}
}
