// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

func TestCluster_Identity(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	one, two := fleettest.Cluster(t, "one"), fleettest.Cluster(t, "hub")
	name := h.name("a")
	h.putKubeconfig(name, one.Kubeconfig())
	h.newCluster(name, nil)
	h.expect(name, hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonSameCluster)

	h.putKubeconfig(name, two.Kubeconfig())
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonIdentityChanged)
	expectCondition(t, c, hubv1.ConditionStalled, metav1.ConditionTrue)
	if c.Annotations[hubv1.AnnotationID] != idOf(t, one) || c.Status.ID != idOf(t, one) {
		t.Errorf("recorded id %q, in status %q, want %q", c.Annotations[hubv1.AnnotationID], c.Status.ID, idOf(t, one))
	}
	message := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady).Message
	if !strings.Contains(message, idOf(t, two)) || !strings.Contains(message, hubv1.AnnotationAcceptID) {
		t.Errorf("the message does not say what to do: %s", message)
	}

	t.Run("is guarded across a restart", func(t *testing.T) {
		h.stop()
		h.start()
		h.expectState(name, registry.StateFailed)
		h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonIdentityChanged)
	})
	t.Run("is accepted by annotation", func(t *testing.T) {
		h.change(name, func(c *hubv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, hubv1.AnnotationAcceptID, idOf(t, two))
		})
		h.expectReady(name)
		h.eventually(func() error {
			c := h.get(name)
			if c.Annotations[hubv1.AnnotationID] != idOf(t, two) || c.Status.ID != idOf(t, two) {
				return fmt.Errorf("recorded id %q, in status %q", c.Annotations[hubv1.AnnotationID], c.Status.ID)
			}
			if got := h.events(name); got["IdentityChanged"] == 0 || got["IdentityAccepted"] != 1 {
				return fmt.Errorf("events %v", got)
			}
			return nil
		})
	})
}

func TestCluster_OneNameForOneCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) {
		o.registry.AllowDuplicates = false
		o.registry.HubID = idOf(t, fleettest.Cluster(t, "hub"))
	})
	remote := fleettest.Cluster(t, "one")
	first, second, itself := h.name("first"), h.name("second"), h.name("itself")
	h.putKubeconfig(first, remote.Kubeconfig())
	h.newCluster(first, nil)
	h.expectReady(first)

	h.putKubeconfig(second, remote.Kubeconfig())
	h.newCluster(second, nil)
	c := h.expect(second, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonDuplicateRegistration)
	if c.Annotations[hubv1.AnnotationID] != "" {
		t.Errorf("the id of a duplicate was recorded: %v", c.Annotations)
	}
	h.putKubeconfig(itself, fleettest.Cluster(t, "hub").Kubeconfig())
	h.newCluster(itself, nil)
	h.expect(itself, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonIsHub)

	t.Run("the second takes over when the first is gone", func(t *testing.T) {
		h.remove(first)
		h.expectGone(first)
		h.expectReady(second)
	})
}

func TestCluster_IdentityThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	name := h.name("a")
	h.putKubeconfig(name, withRights(t, fleettest.Cluster(t, "one"), "nobody-special", nil))
	h.newCluster(name, nil)
	c := h.expectReady(name)
	expectCondition(t, c, hubv1.ConditionIdentityConfirmed, metav1.ConditionUnknown)
}

// expectState waits until the registry says that a remote is in a state.
func (h *hub) expectState(name string, state registry.State) {
	h.t.Helper()
	h.eventually(func() error {
		if info, _ := h.registry.Info(registry.ClusterName(name)); info.State != state {
			return fmt.Errorf("%s is %s, want %s", name, info.State, state)
		}
		return nil
	})
}
