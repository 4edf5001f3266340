// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// An unchanged status is not sent, regardless of the number of reconciles. The API server would not write it, but would
// have to compare it.
func TestCluster_StatusIsAppliedOnChangeOnly(t *testing.T) {
	t.Parallel()
	h, traffic := newTrafficHub(t, nil)
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expect(name, hubv1.ConditionIdentityConfirmed, metav1.ConditionTrue, hubv1.ReasonSameCluster)
	h.expectReady(name)
	reconcile := func() { // The last reconcile may still be running.
		before := traffic.ensuredOf(name)
		h.change(name, func(c *hubv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "example.com/touched", fmt.Sprint(before))
		})
		h.eventually(func() error {
			if traffic.ensuredOf(name) == before {
				return errors.New("the Cluster was not reconciled")
			}
			return nil
		})
	}
	reconcile()
	reconcile()
	before := traffic.appliedOf(name)
	for range 5 {
		reconcile()
	}
	if got := traffic.appliedOf(name) - before; before == 0 || got > 0 {
		t.Errorf("the status was sent %d times, and then %d times more without a change", before, got)
	}
}

// watched is a registry that passes calls of the reconciler to a test. A nil function is not called.
type watched struct {
	cluster.Remotes
	ensures func(name string, c state.Desired)
	removed func(ctx context.Context)
	asked   atomic.Int64 // the time of the last call of Status, in nanoseconds
}

func (w *watched) Ensure(name registry.ClusterName, c state.Desired) error {
	if w.ensures != nil {
		w.ensures(string(name), c)
	}
	return w.Remotes.Ensure(name, c)
}

func (w *watched) Remove(ctx context.Context, name registry.ClusterName) error {
	err := w.Remotes.Remove(ctx, name)
	if w.removed != nil {
		w.removed(ctx)
	}
	return err
}

func (w *watched) Status(name registry.ClusterName) (registry.Status, bool) {
	w.asked.Store(time.Now().UnixNano())
	return w.Remotes.Status(name)
}

// start starts a process of a hub with the watched registry.
func (w *watched) start(t *testing.T, h *hub) {
	t.Helper()
	h.options.remotes = func(r cluster.Remotes) cluster.Remotes {
		w.Remotes = r
		return w
	}
	h.start()
	t.Cleanup(func() { h.stop() })
}

// A Cluster has its finalizer before an app may start, so that a deletion waits for the end of the app.
func TestCluster_FinalizerComesFirst(t *testing.T) {
	t.Parallel()
	h := newIdleHub(t, nil)
	ctx := context.WithoutCancel(t.Context()) // The hub ends after the test.
	var contacts, starts atomic.Int64
	w := &watched{ensures: func(name string, desired state.Desired) {
		if desired.IdentifyOnly {
			contacts.Add(1)
			return
		}
		starts.Add(1)
		var c hubv1.Cluster
		if err := h.Get(ctx, client.ObjectKey{Name: name}, &c); err != nil {
			t.Errorf("read the Cluster: %v", err)
		}
		if !slices.Contains(c.Finalizers, hubv1.FinalizerCluster) {
			t.Errorf("an app of %s may start with the finalizers %v", name, c.Finalizers)
		}
	}}
	w.start(t, h)
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	if contacts.Load() == 0 || starts.Load() == 0 {
		t.Errorf("got %d contacts before a start and %d starts, want some of both", contacts.Load(), starts.Load())
	}
}

// The end of a removal triggers a reconcile of its Cluster, even without another change of the Cluster.
func TestCluster_EndOfARemoval(t *testing.T) {
	t.Parallel()
	removed, end := make(chan struct{}), make(chan struct{})
	done := sync.OnceFunc(func() { close(removed) })
	w := &watched{removed: func(ctx context.Context) {
		done()
		select {
		case <-end:
		case <-ctx.Done():
		}
	}}
	h := newIdleHub(t, func(o *hubOptions) { o.settings.RemoveWithin = 10 * patience })
	w.start(t, h)
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	h.remove(name)
	<-removed
	// The app has ended, and so have all reconciles that its end triggered.
	h.eventually(func() error {
		if last := time.Unix(0, w.asked.Load()); time.Since(last) < 2*time.Second {
			return fmt.Errorf("the last reconcile of the Cluster was at %s", last)
		}
		return nil
	})
	close(end)
	h.expectGone(name)
	h.expectEvent(name, "Deregistered")
}
