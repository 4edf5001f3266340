// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The heartbeats of Nodes cause no reconciles.
func TestRelevant(t *testing.T) {
	t.Parallel()
	before := &corev1.Node{Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"a heartbeat":      {func(n *corev1.Node) { n.Status.Conditions[0].Message = "still there" }, false},
		"a label":          {func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }, false},
		"a lost Node":      {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, true},
		"another capacity": {func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2") }, true},
	} {
		after := before.DeepCopy()
		tc.change(after)
		testkit.Equal(t, relevant().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), tc.want, name, "relevant")
	}
}
