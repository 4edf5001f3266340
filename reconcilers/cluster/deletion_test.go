// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry"
)

// remove deletes a Cluster.
func (h *hub) remove(name string) {
	h.t.Helper()
	h.must(h.Delete(h.t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func TestCluster_Deletion(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) { o.modules = modules.All() })
	remote := fleettest.Cluster(t, "one")
	ready := func(t *testing.T, suffix string) (*hub, string) {
		h := *h
		h.t = t
		name := h.name(suffix)
		h.putKubeconfig(name, remote.Kubeconfig())
		h.newCluster(name, nil)
		h.expectReady(name)
		return &h, name
	}
	t.Run("stops the app", func(t *testing.T) {
		h, name := ready(t, "a")
		h.remove(name)
		h.expectGone(name)
		h.eventually(func() error {
			if h.events(name)["Deregistered"] != 1 {
				return fmt.Errorf("events: %v", h.events(name))
			}
			return nil
		})
	})
	t.Run("needs no Secret", func(t *testing.T) {
		h, name := ready(t, "b")
		h.deleteSecret(name)
		h.remove(name)
		h.expectGone(name)
	})
	t.Run("works before there was anything to stop", func(t *testing.T) {
		h, name := ready(t, "c")
		h.newCluster(name+"-idle", nil)
		h.expect(name+"-idle", hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonSecretNotFound)
		h.remove(name + "-idle")
		h.expectGone(name + "-idle")
	})
	t.Run("leaves the finalizers of others alone", func(t *testing.T) {
		h, name := ready(t, "d")
		const foreign = "example.com/theirs"
		h.change(name, func(c *hubv1.Cluster) { controllerutil.AddFinalizer(c, foreign) })
		h.remove(name)
		h.eventually(func() error {
			if left := h.get(name).Finalizers; len(left) != 1 || left[0] != foreign {
				return fmt.Errorf("finalizers = %v", left)
			}
			return nil
		})
		h.expectStopped(name)
		h.change(name, func(c *hubv1.Cluster) { controllerutil.RemoveFinalizer(c, foreign) })
		h.expectGone(name)
	})
	t.Run("stops the app also when somebody else lets the Cluster go", func(t *testing.T) {
		h, name := ready(t, "e")
		// Both at once, so that the hub may not see the Cluster again.
		var c *hubv1.Cluster
		h.eventually(func() error {
			c = h.get(name)
			c.Finalizers = nil
			return h.Update(t.Context(), c)
		})
		h.must(client.IgnoreNotFound(h.Delete(t.Context(), c)))
		h.eventually(func() error {
			if _, ok := h.registry.Info(registry.ClusterName(name)); ok {
				return errors.New("the app still runs")
			}
			return nil
		})
	})
	t.Run("can be followed by a Cluster of the same name", func(t *testing.T) {
		h, name := ready(t, "f")
		h.remove(name)
		h.expectGone(name)
		h.newCluster(name, nil)
		h.expectReady(name)
	})
}

func TestCluster_DeletionThatTakesItsTime(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	stubborn := registry.NewModule("stubborn", registry.ModuleOptions{Remote: fx.Invoke(func(mgr ctrl.Manager) error {
		return mgr.Add(manager.RunnableFunc(func(context.Context) error {
			<-release
			return nil
		}))
	})})
	h := newHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{stubborn, idle("docile")}
		o.settings.Concurrency = 1
		o.registry.Limits.StopTimeout = patience
	})
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo) // before the hub is stopped, also if the test fails
	name, other := h.name("a"), h.name("b")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	h.remove(name)
	c := h.expect(name, hubv1.ConditionReady, metav1.ConditionUnknown, hubv1.ReasonStopping)
	expectCondition(t, c, hubv1.ConditionReconciling, metav1.ConditionTrue)
	expectCondition(t, c, hubv1.ConditionCredentialsValid, metav1.ConditionTrue)

	// The only worker is free for others.
	h.putKubeconfig(other, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(other, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"docile"} })
	h.expectReady(other)
	letGo()
	h.expectGone(name)
}

func TestCluster_DeletionOfADeadRemote(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(o *hubOptions) {
		o.modules = modules.All()
		o.registry.Limits = registry.Limits{StopTimeout: 2 * time.Second}
	})
	remote := fleettest.Cluster(t, "mortal")
	t.Cleanup(func() { h.must(remote.Restart(context.WithoutCancel(t.Context()))) }) // for -count
	names := map[string]string{"silent": h.name("silent"), "refusing": h.name("refusing"), "restarted": h.name("restarted")}
	for _, name := range names {
		h.putKubeconfig(name, remote.Kubeconfig())
		h.newCluster(name, nil)
		h.expectReady(name)
	}
	gone := func(how string) {
		t.Helper()
		began := time.Now()
		h.deleteSecret(names[how])
		h.remove(names[how])
		h.expectGone(names[how])
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("deregistering a remote that is %s took %s", how, took)
		}
	}
	h.must(remote.Pause())
	gone("silent")
	h.must(remote.Resume())
	h.must(remote.Kill())
	gone("refusing")
	h.stop()
	h.start()
	gone("restarted")
}
