// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Fault F16: if credentials suddenly lead to another cluster, modules write nothing there, also after a restart of the hub, until an
// annotation accepts it.
func TestCluster_Identity(t *testing.T) {
	t.Parallel()
	one, two := fleettest.Cluster(t, "one"), fleettest.Cluster(t, "hub")
	mark := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	writer := registry.NewModule("writer", registry.ModuleOptions{
		Remote: fx.Invoke(func(name registry.ClusterName, remote client.Client, lifecycle fx.Lifecycle) {
			lifecycle.Append(fx.StartHook(func(ctx context.Context) error {
				return client.IgnoreAlreadyExists(remote.Create(ctx, mark(string(name))))
			}))
		}),
	})
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{writer} })
	name := h.name("a")
	written := func(c *fleet.Cluster) bool {
		t.Helper()
		err := clientFor(t, c).Get(t.Context(), client.ObjectKeyFromObject(mark(name)), &corev1.ConfigMap{})
		h.must(client.IgnoreNotFound(err))
		return err == nil
	}
	h.putKubeconfig(name, one.Kubeconfig())
	h.newCluster(name, nil)
	h.expect(name, hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonSameCluster)
	h.expectReady(name)
	if !written(one) {
		t.Error("the module does not write to its own cluster, so the test proves nothing")
	}

	h.putKubeconfig(name, two.Kubeconfig())
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonIdentityChanged)
	expectCondition(t, c, hubv1.ConditionStalled, metav1.ConditionTrue)
	if c.Annotations[hubv1.AnnotationID] != idOf(t, one) || c.Status.ID != idOf(t, one) {
		t.Errorf("got recorded id %q and status id %q, want %q", c.Annotations[hubv1.AnnotationID], c.Status.ID, idOf(t, one))
	}
	message := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady).Message
	if !strings.Contains(message, idOf(t, two)) || !strings.Contains(message, hubv1.AnnotationAcceptID) {
		t.Errorf("the message does not contain the new id and the annotation: %s", message)
	}
	h.stop()
	h.start()
	h.expectState(name, state.StateFailed)
	h.expectReason(name, hubv1.ReasonIdentityChanged)
	if written(two) {
		t.Error("the module wrote to the wrong cluster")
	}

	h.change(name, func(c *hubv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, hubv1.AnnotationAcceptID, idOf(t, two))
	})
	h.expectReady(name)
	h.eventually(func() error {
		c := h.get(name)
		if c.Annotations[hubv1.AnnotationID] != idOf(t, two) || c.Status.ID != idOf(t, two) {
			return fmt.Errorf("got recorded id %q and status id %q, want the accepted id", c.Annotations[hubv1.AnnotationID], c.Status.ID)
		}
		if got := h.events(name); got["IdentityChanged"] == 0 || got["IdentityAccepted"] != 1 {
			return fmt.Errorf("got events %v, want IdentityChanged and one IdentityAccepted", got)
		}
		return nil
	})
}

// Faults F15 and F17: of two Clusters for one cluster only the older runs; the hub's own cluster needs an annotation.
func TestCluster_OneNameForOneCluster(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	started := map[registry.ClusterName]int{}
	counting := registry.NewModule("counting", registry.ModuleOptions{
		Remote: fx.Invoke(func(name registry.ClusterName) {
			mu.Lock()
			defer mu.Unlock()
			started[name]++
		}),
	})
	starts := func(name string) int {
		mu.Lock()
		defer mu.Unlock()
		return started[registry.ClusterName(name)]
	}
	hubID := idOf(t, fleettest.Cluster(t, "hub"))
	h := newHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{counting}
		o.registry.AllowDuplicates = false
		o.registry.HubID, o.settings.HubID = hubID, hubID
	})
	remote := fleettest.Cluster(t, "one")
	// The order of the names is not the order of creation.
	first, second, itself := h.name("z-first"), h.name("a-second"), h.name("itself")
	h.putKubeconfig(first, remote.Kubeconfig())
	h.newCluster(first, nil)
	h.expectReady(first)
	h.eventually(func() error { // The resolution of creation times is a second.
		if age := time.Since(h.get(first).CreationTimestamp.Time); age < time.Second {
			return fmt.Errorf("the Cluster is %s old, want a second", age)
		}
		return nil
	})
	h.putKubeconfig(second, remote.Kubeconfig())
	h.newCluster(second, nil)
	c := h.expect(second, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonDuplicateRegistration)
	if c.Annotations[hubv1.AnnotationID] != "" {
		t.Errorf("the id of a duplicate is recorded: %v", c.Annotations)
	}
	h.putKubeconfig(itself, fleettest.Cluster(t, "hub").Kubeconfig())
	h.newCluster(itself, nil)
	h.expect(itself, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonIsHub)
	if starts(itself) != 0 {
		t.Error("an app was started for the hub's own cluster")
	}

	t.Run("the older one stays, also after a restart", func(t *testing.T) {
		h.stop()
		h.start()
		h.expectRunning(first)
		h.expectState(second, state.StateFailed)
		h.expectReady(first)
		h.expectReason(second, hubv1.ReasonDuplicateRegistration)
		if n := starts(second); n != 0 {
			t.Errorf("the younger Cluster was started %d times, want 0", n)
		}
	})
	t.Run("the hub's own cluster is allowed by choice, and marked", func(t *testing.T) {
		set := func(value string) {
			h.change(itself, func(c *hubv1.Cluster) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, hubv1.AnnotationAllowHub, value)
			})
		}
		set("yes, please") // not the value that allows it
		h.expectReason(itself, hubv1.ReasonIsHub)
		set(hubv1.AnnotationAllowHubValue)
		h.expectReady(itself)
		c := h.expect(itself, hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonIsHub)
		if message := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionIdentityConfirmed).Message; !strings.Contains(message, hubID) {
			t.Errorf("got message %q, want the id of the hub", message)
		}
		set("")
		h.expectReason(itself, hubv1.ReasonIsHub)
	})
	t.Run("the second takes over when the first is gone", func(t *testing.T) {
		h.remove(first)
		h.expectGone(first)
		h.expectReady(second)
	})
}

// expectState waits until a remote is in a state.
func (h *hub) expectState(name string, want state.State) {
	h.t.Helper()
	h.eventually(func() error {
		if info, _ := h.registry.Status(registry.ClusterName(name)); info.State != want {
			return fmt.Errorf("%s is %s, want %s", name, info.State, want)
		}
		return nil
	})
}
