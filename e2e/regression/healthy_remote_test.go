// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// bystander watches a remote that a test of other remotes must not affect.
type bystander struct {
	t        *testing.T
	registry *registry.Registry
	name     registry.ClusterName
	cluster  string
	epoch    int64

	cancel context.CancelFunc
	done   sync.WaitGroup
	// Written by the goroutine, read after done.
	leases, refused int
	longest         time.Duration
	last            error
}

const leaseEvery = 20 * time.Millisecond

// overload is the FailureThreshold of a remote whose probes, with a timeout of one second, may fail because the machine of the
// test is busy.
const overload = 60

// newBystander starts to watch a remote that is Ready.
func newBystander(t *testing.T, r *registry.Registry, cluster string, name registry.ClusterName) *bystander {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	b := &bystander{t: t, registry: r, name: name, cluster: cluster, epoch: epochOf(t, r, name), cancel: cancel}
	first := make(chan struct{})
	b.done.Go(func() { b.use(ctx, first) })
	t.Cleanup(func() {
		cancel()
		b.done.Wait()
	})
	<-first
	return b
}

// spawnBystander registers a new remote with a registry, and starts to watch it.
func spawnBystander(t *testing.T, r *registry.Registry, cluster string) *bystander {
	t.Helper()
	name := registry.ClusterName(unique("bystander"))
	config := admin(t, cluster)
	config.Probe.FailureThreshold = overload
	spawn(t, r, name, config)
	return newBystander(t, r, cluster, name)
}

// registerBystander registers a new Cluster with a hub, and starts to watch it.
func (h *hub) registerBystander(cluster string) *bystander {
	h.t.Helper()
	name := unique("bystander")
	h.register(name, fleettest.Cluster(h.t, cluster).Kubeconfig(), func(c *hubv1.Cluster) { c.Spec.Probe.FailureThreshold = overload })
	h.expectReady(name)
	return newBystander(h.t, h.registry, cluster, registry.ClusterName(name))
}

// use takes leases until ctx ends. It closes first after the first lease.
func (b *bystander) use(ctx context.Context, first chan struct{}) {
	again := time.NewTicker(leaseEvery)
	defer again.Stop()
	for {
		began := time.Now()
		err := b.registry.WithClient(ctx, b.name, func(ctx context.Context, remote client.Client) error {
			var none corev1.ConfigMapList // a kind that the app caches
			return remote.List(ctx, &none, client.InNamespace(metav1.NamespacePublic))
		})
		if b.leases == 0 {
			close(first)
		}
		b.leases++
		b.longest = max(b.longest, time.Since(began))
		if err != nil && ctx.Err() == nil {
			b.refused++
			b.last = err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// expectServed ends the watch, and fails the test if a lease failed at any time.
func (b *bystander) expectServed() {
	b.t.Helper()
	b.cancel()
	b.done.Wait()
	if b.refused > 0 {
		b.t.Errorf("%d of %d leases of %s failed, the last with %v", b.refused, b.leases, b.name, b.last)
	}
}

// expectUnaware ends the watch, and fails the test if a lease failed, if the app was replaced or restarted, or if the
// reconciler does not work.
func (b *bystander) expectUnaware() {
	b.t.Helper()
	b.expectServed()
	info, _ := b.registry.Status(b.name)
	if info.State != state.StateReady || info.Epoch != b.epoch || info.Restarts != 0 {
		b.t.Errorf("%s is %s in epoch %d after %d restarts, want Ready in epoch %d without restarts", b.name, info.State, info.Epoch, info.Restarts, b.epoch)
	}
	took, err := awaitMark(b.t.Context(), fleettest.Client(b.t, fleettest.Cluster(b.t, b.cluster), hubv1.AddToScheme), b.name)
	testkit.NoError(b.t, err)
	b.t.Logf("bystander %s: %d leases, the longest took %s; its reconciler took %s", b.name, b.leases, b.longest, took)
}
