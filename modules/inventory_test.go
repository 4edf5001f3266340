// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/inventory"
)

func TestInventory_FollowsTheNodes(t *testing.T) {
	t.Parallel()
	s := newInventoryHub(t)
	s.Register()
	s.expect("0 nodes, 0 ready, cpu 0, memory 0") // A remote without Nodes also has an inventory.

	theirs := hubac.Cluster(s.Name()).WithStatus(hubac.ClusterStatus().
		WithConditions(metav1ac.Condition().WithType("Theirs").WithStatus(metav1.ConditionTrue).
			WithReason("Done").WithMessage("done").WithLastTransitionTime(metav1.Now())))
	s.must(s.hub.Client().Status().Apply(t.Context(), theirs, client.FieldOwner("somebody")))

	s.addNode("a", corev1.ConditionTrue)
	s.addNode("b", corev1.ConditionTrue)
	s.addNode("c", corev1.ConditionFalse)
	s.addNode("d", corev1.ConditionTrue)
	s.setReady("b", corev1.ConditionUnknown)
	s.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "d"}})

	// Many changes result in one write, at the end of the interval, which includes the last change.
	s.expect("3 nodes, 1 ready, cpu 6, memory 12Gi")
	s.expectPace()
	s.WaitReady() // The status has the conditions of the hub and of the other field manager.
	if c := s.Cluster(); !meta.IsStatusConditionTrue(c.Status.Conditions, "Theirs") {
		t.Errorf("condition Theirs of another field manager is lost: %+v", c.Status)
	}
}

func TestInventory_WritesNothingWhenNothingCountedChanges(t *testing.T) {
	t.Parallel()
	s := newInventoryHub(t)
	s.addNode("a", corev1.ConditionTrue)
	s.Register()
	s.expect("1 nodes, 1 ready, cpu 2, memory 4Gi")
	s.WaitReady()
	s.WaitCondition(hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonSameCluster)
	before := s.Cluster().ResourceVersion
	beats := 0
	gomega.NewWithT(t).Consistently(func() string {
		beats++
		s.changeNode("a", func(n *corev1.Node) {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
			n.Status.Conditions[0].Message = fmt.Sprint("beat ", beats)
		})
		return s.Cluster().ResourceVersion
	}).WithTimeout(inventory.Interval + time.Second).WithPolling(250 * time.Millisecond).Should(gomega.Equal(before))
	s.changeNode("a", func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2500m") })
	s.expect("1 nodes, 1 ready, cpu 2500m, memory 4Gi")
}

// expect waits until the inventory has this text.
func (s *inventoryHub) expect(want string) {
	s.t.Helper()
	s.Eventually(func() error {
		if got := text(s.Cluster().Status.Inventory); got != want {
			return fmt.Errorf("inventory: got %s, want %s", got, want)
		}
		return nil
	})
}

// nothing is the text of an inventory that was never written.
const nothing = "nothing yet"

func text(i hubv1.InventoryStatus) string {
	if i.Nodes == nil || i.ReadyNodes == nil || i.Allocatable.CPU == nil || i.Allocatable.Memory == nil {
		return nothing
	}
	return fmt.Sprintf("%d nodes, %d ready, cpu %s, memory %s", *i.Nodes, *i.ReadyNodes, i.Allocatable.CPU, i.Allocatable.Memory)
}

// expectPace checks that consecutive writes keep the minimum interval.
func (s *inventoryHub) expectPace() {
	s.t.Helper()
	const jitter = 500 * time.Millisecond // of the watch that sees the writes
	var last time.Time
	for _, one := range s.history() {
		if one.inventory == nothing {
			continue
		}
		if apart := one.at.Sub(last); apart < inventory.Interval-jitter {
			s.t.Errorf("%q was written %s after the previous write", one.inventory, apart)
		}
		last = one.at
	}
}
