// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/modules"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestCluster_RestartOfTheHub(t *testing.T) {
	t.Parallel()
	const count = 8
	h := newHub(t, func(o *hubOptions) { o.modules = modules.All() })
	kubeconfigs := [][]byte{fleettest.Cluster(t, "one").Kubeconfig(), fleettest.Cluster(t, "hub").Kubeconfig()}
	var names []string
	for i := range count {
		name := h.name(fmt.Sprintf("c%d", i))
		names = append(names, name)
		h.putKubeconfig(name, kubeconfigs[i%len(kubeconfigs)])
		h.newCluster(name, nil)
	}
	// While the hub is stopped, one Cluster loses its Secret, and another Cluster is deleted.
	orphan, deleted := names[count-2], names[count-1]
	before := map[string]*hubv1.Cluster{}
	for _, name := range names {
		before[name] = h.expectReady(name)
	}
	h.stop()
	h.deleteSecret(orphan)
	h.remove(deleted)
	began := time.Now()
	h.start()
	for _, name := range names[:count-2] {
		h.expectRunning(name)
	}
	t.Logf("all apps run %s after the start", time.Since(began))
	h.expect(orphan, hubv1.ConditionReady, "False", hubv1.ReasonSecretNotFound)
	h.expectGone(deleted)
	for _, name := range names[:count-2] {
		after := h.expectReady(name)
		if after.Generation != before[name].Generation || after.UID != before[name].UID {
			t.Errorf("%s: got generation %d, want %d", name, after.Generation, before[name].Generation)
		}
	}
}

// A restart of the hub writes nothing for Clusters that are Ready before and after it, even if their turn takes a while, and reads
// their Secrets together. The Clusters stay Ready meanwhile. A remote that is down does not.
// Promise: a restart of the hub writes nothing for Clusters that stay Ready.
func TestCluster_RestartWritesNothing(t *testing.T) {
	t.Parallel()
	h, traffic := newTrafficHub(t, nil)
	proxies := map[bool]*fault.Proxy{}
	count := 200
	if testing.Short() {
		count = 12
	}
	var names []string
	for i := range count {
		name, isDown := h.name(fmt.Sprintf("c%d", i)), i == count-1
		if i == 0 || isDown {
			remote := fleettest.Cluster(t, "one")
			proxy, err := fault.New(remote.Server())
			h.must(err)
			t.Cleanup(proxy.Close)
			proxies[isDown] = proxy
		}
		kubeconfig, err := proxies[isDown].Kubeconfig(fleettest.Cluster(t, "one").Kubeconfig())
		h.must(err)
		h.putKubeconfig(name, kubeconfig)
		h.newCluster(name, func(c *hubv1.Cluster) { c.Spec.Probe.PeriodSeconds, c.Spec.Probe.TimeoutSeconds = 30, 30 })
		names = append(names, name)
	}
	down := names[count-1]
	before := map[string]string{}
	for _, name := range names {
		before[name] = h.expectReady(name).ResourceVersion
	}
	h.stop()
	h.must(proxies[false].Set(fault.Hold()))
	h.must(proxies[true].Set(fault.Refuse()))
	traffic.reset()
	h.start()
	h.expect(down, hubv1.ConditionReady, metav1.ConditionFalse, hubv1.ReasonUnreachable)
	h.eventually(func() error { // The others are known to be Unknown for longer than such a state is usually kept back.
		for _, name := range names[:count-1] {
			info, ok := h.registry.Status(registry.ClusterName(name))
			if !ok || info.State == state.StateReady || time.Since(info.Since) < 3*time.Second {
				return fmt.Errorf("%s: %+v", name, info)
			}
		}
		return nil
	})
	h.must(proxies[false].Set(fault.Pass()))
	for _, name := range names[:count-1] {
		h.expectRunning(name)
		if after := h.expectReady(name); after.ResourceVersion != before[name] {
			t.Errorf("%s was written: %s", name, summary(after))
		}
	}
	if reads := traffic.sum(); reads != count {
		t.Errorf("got %d reads of %d Secrets", reads, count)
	}
	for _, name := range names[:count-1] {
		if n := traffic.appliedOf(name); n != 0 {
			t.Errorf("the status of %s was sent %d times", name, n)
		}
	}
}
