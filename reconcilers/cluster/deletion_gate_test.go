// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// A Cluster is deleted while the hub may not write to its remote, for longer than a removal may take. The finalizer stays until
// the hub may write again and the cleanup steps are done.
func TestCluster_DeletionWhileTheGateIsClosed(t *testing.T) {
	t.Parallel()
	var closed atomic.Bool
	var starts atomic.Int32
	var h *hub
	left := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "untidy"}}
	}
	tidy := registry.NewModule("tidy", registry.ModuleOptions{Remote: fx.Options(
		fx.Provide(registry.AsCleanup(func(remote client.Client) registry.CleanupStep {
			return registry.CleanupStep{Name: "tidy/configmap", Run: func(ctx context.Context) error {
				return client.IgnoreNotFound(remote.Delete(ctx, left()))
			}}
		})),
		fx.Invoke(func(l fx.Lifecycle) { l.Append(fx.StartHook(func() { starts.Add(1) })) }),
	)})
	h = newIdleHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{tidy}
		o.settings.RemoveWithin = 3 * time.Second
		o.registry.Gate = func(registry.ClusterName) (int64, error) {
			if closed.Load() {
				return 0, registry.ErrElsewhere
			}
			return 1, nil
		}
	})
	h.start()
	t.Cleanup(func() { h.stop() })
	remote := clientFor(t, fleettest.Cluster(t, "one"))
	h.must(remote.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}))
	h.must(remote.Create(t.Context(), left()))
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	closed.Store(true)
	before := starts.Load()
	h.remove(name)
	h.eventually(func() error {
		h.get(name) // It fails the test if the Cluster is gone.
		if starts.Load() == before {
			return errors.New("the removal does not begin again")
		}
		return nil
	})
	h.must(remote.Get(t.Context(), client.ObjectKeyFromObject(left()), left()))
	closed.Store(false)
	h.expectGone(name)
	if err := remote.Get(t.Context(), client.ObjectKeyFromObject(left()), left()); !apierrors.IsNotFound(err) {
		t.Errorf("get the object that the cleanup step deletes: %v, want NotFound", err)
	}
	if n := h.events(name)["Abandoned"]; n != 0 {
		t.Errorf("got %d events that say that the cleanup is incomplete, want none", n)
	}
}
