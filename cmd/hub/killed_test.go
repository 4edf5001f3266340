// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// A hub is killed at random moments, again and again, while a remote is registered and deregistered.
// The next one that is left alone brings everything to where it should be, and nothing is there
// twice. (F55, F59)
func TestRun_KilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	kills, longest := 10, 1500*time.Millisecond
	if allFaults() {
		kills, longest = 100, 3*time.Second
	}
	f := fleettest.New(t, fleet.Options{})
	hub, edge := create(t, f, "hub"), create(t, f, "edge")
	kubeconfig, c := install(t, hub), clientFor(t, hub)
	stay := []string{"one", "two", "three"}
	for _, name := range stay {
		must(t, c.Create(t.Context(), registration(name, edge)))
	}
	args := []string{
		"run", "--kubeconfig=" + kubeconfig, "--allow-cidr=127.0.0.0/8", "--allow-duplicate-clusters",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		one := start(t, args...)
		if i%2 == 0 {
			must(t, c.Create(t.Context(), registration("comes-and-goes", edge)))
		} else {
			must(t, c.Delete(t.Context(), registration("comes-and-goes", edge)))
			_ = c.Delete(t.Context(), clusterNamed("comes-and-goes")) // which may not have come yet
		}
		pause(time.Duration(random.Int64N(int64(longest))))
		one.signal(syscall.SIGKILL)
		_ = one.exit()
	}
	last := start(t, args...)
	begin := time.Now()
	expectNodes(t, hub, stay, 0)
	eventually(t, func() error {
		var all hubv1.ClusterList
		if err := c.List(t.Context(), &all); err != nil {
			return err
		}
		if len(all.Items) != len(stay) {
			return fmt.Errorf("there are %d Clusters", len(all.Items))
		}
		for _, one := range all.Items {
			if len(one.Finalizers) != 1 {
				return fmt.Errorf("%s has the finalizers %v", one.Name, one.Finalizers)
			}
		}
		return nil
	})
	t.Logf("after %d kills everything was Ready within %s", kills, time.Since(begin).Round(time.Second/10))
	last.signal(syscall.SIGTERM)
	last.expectExit(0)
}

func clusterNamed(name string) client.Object {
	cluster := &hubv1.Cluster{}
	cluster.Name = name
	return cluster
}
