// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// gracePeriod is the default termination grace period of a Pod.
const gracePeriod = 30 * time.Second

// A hub with many remotes exits with 0 within the grace period after SIGTERM, even if a fifth of the remotes have just become silent.
func TestRun_SIGTERMWithManyRemotes(t *testing.T) {
	fleettest.Slow(t, "nothing: hundreds of remotes need minutes of a processor")
	t.Parallel()
	const remotes = 500
	hub, servers, names := manyRemotes(t, remotes)
	args := []string{
		"run", "--kubeconfig=" + write(t, hub), "--allow-cidr=127.0.0.0/8", "--allow-duplicate-clusters",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--alone=false", "--log-level=error",
	}
	for nodes, silent := range []bool{false, true} {
		one := start(t, args...)
		expectNodes(t, hub, names, int32(nodes))
		if silent {
			must(t, servers[0].Pause())
			defer func() { must(t, servers[0].Resume()) }()
		}
		begin := time.Now()
		one.signal(syscall.SIGTERM)
		one.expectExit(0)
		took := time.Since(begin)
		t.Logf("a hub with %d remotes, a fifth of them silent: %t, ends %s after SIGTERM", remotes, silent, took.Round(time.Second/10))
		if took > gracePeriod {
			t.Errorf("the hub takes longer than %s to end", gracePeriod)
		}
		if !silent {
			// Only a working hub can count these Nodes.
			for _, server := range servers {
				must(t, clientFor(t, server).Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}))
			}
		}
	}
}

// manyRemotes registers many addresses of two API servers as remotes; every fifth address leads to the first server.
func manyRemotes(t *testing.T, n int) (hub *fleet.Cluster, servers []*fleet.Cluster, names []string) {
	t.Helper()
	var addresses []netip.Addr
	for i := range n {
		addresses = append(addresses, netip.AddrFrom4([4]byte{127, 2, byte(i / 250), byte(1 + i%250)}))
		names = append(names, fmt.Sprintf("edge-%d", i))
	}
	f := fleettest.New(t, fleet.Options{Addresses: addresses})
	clusters := createAll(t, f, "hub", "fifth", "rest")
	hub, servers = clusters[0], clusters[1:]
	install(t, hub)
	c, registering := clientFor(t, hub), errgroup.Group{}
	registering.SetLimit(10)
	for i, address := range addresses {
		server := servers[min(i%5, 1)]
		registering.Go(func() error {
			kubeconfig, err := fleet.At(server.Kubeconfig(), address)
			if err != nil {
				return err
			}
			secret := registration(names[i], server)
			secret.Data["kubeconfig"] = kubeconfig
			return c.Create(t.Context(), secret)
		})
	}
	must(t, registering.Wait())
	return hub, servers, names
}
