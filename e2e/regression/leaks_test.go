// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// cycle is the life of one Cluster with a unique name: its registration, and the events until its deletion.
type cycle struct {
	what string
	live func(t *testing.T, h *hub, name string)
}

// cycles are all ways in which a remote ends. A proxy has an address that the hub has not seen before, which reveals
// state that is kept by address.
func cycles() []cycle {
	return []cycle{
		{"in good order", func(t *testing.T, h *hub, name string) {
			h.register(name, fleettest.Cluster(t, one).Kubeconfig(), nil)
			h.expectReady(name)
		}},
		{"while it starts", func(t *testing.T, h *hub, name string) {
			starting := make(chan struct{})
			began := sync.OnceFunc(func() { close(starting) })
			h.scripts.set(t, registry.ClusterName(name), script{start: func(ctx context.Context) error {
				began()
				<-ctx.Done()
				return context.Cause(ctx)
			}})
			h.register(name, fleettest.Cluster(t, one).Kubeconfig(), nil)
			<-starting
		}},
		{"before it was looked at", func(t *testing.T, h *hub, name string) {
			h.register(name, fleettest.Cluster(t, two).Kubeconfig(), nil)
		}},
		{"while its remote is refused", func(t *testing.T, h *hub, name string) {
			p, data := fleettest.ProxyTo(t, fleettest.Cluster(t, two))
			set(t, p, fault.Refuse())
			h.register(name, data, nil)
			h.expectUnreachable(name, hubv1.ReasonUnreachable)
		}},
		{"while its remote is silent", func(t *testing.T, h *hub, name string) {
			p, data := fleettest.ProxyTo(t, fleettest.Cluster(t, two))
			h.register(name, data, nil)
			h.expectReady(name)
			set(t, p, fault.Blackhole())
		}},
		{"after a panic of a module", func(t *testing.T, h *hub, name string) {
			h.scripts.set(t, registry.ClusterName(name), script{run: func(context.Context) error { panic("at the disco") }})
			h.register(name, fleettest.Cluster(t, two).Kubeconfig(), nil)
			h.expect(name, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonModuleFailed)
		}},
		{"after a change of its server", func(t *testing.T, h *hub, name string) {
			p, _ := fleettest.ProxyTo(t, fleettest.Cluster(t, one))
			h.register(name, fleettest.Cluster(t, one).Kubeconfig(), nil)
			h.expectReady(name)
			before := h.epochOf(name)
			h.change(name, func(c *hubv1.Cluster) { c.Spec.Server = "https://" + p.Addr() })
			eventually(t, func() error {
				if info, _ := h.registry.Status(registry.ClusterName(name)); info.Epoch == before || info.State != state.StateReady {
					return fmt.Errorf("epoch %d is %s, want a new epoch that is Ready", info.Epoch, info.State)
				}
				return nil
			})
		}},
	}
}

// A thousand remotes that start and end in all ways of cycles leak nothing in the process of the hub: no goroutine, no
// memory, no file descriptor and no metric. The test runs alone, because it measures the process.
func TestLeaks_RemotesThatEndInEveryWay(t *testing.T) {
	fleettest.Slow(t, "./registry TestRegistry_Cycles")
	h := newHub(t, nil)
	h.options.Registry.Limits.StopTimeout = 2 * time.Second
	h.start()
	aside := h.registerBystander(one)

	const atOnce, warmUp, total = 4, 140, 1140
	var done, zombies atomic.Int64
	round := func() {
		var work sync.WaitGroup
		for range atOnce {
			for _, one := range cycles() {
				work.Go(func() {
					t.Run(one.what, func(t *testing.T) { h.seenBy(t).cycle(one) })
					done.Add(1)
				})
			}
		}
		work.Wait()
		zombies.Add(int64(h.registry.Zombies()))
	}
	began := time.Now()
	for done.Load() < warmUp {
		round()
	}
	<-time.After(lingering)
	warm, before := done.Load(), h.measure()
	for done.Load() < total {
		round()
	}
	<-time.After(lingering)
	after := h.measureUntil(before)
	t.Logf("after %4d cycles: %s", warm, before)
	t.Logf("after %4d cycles: %s (%s; sum of zombies: %d)", done.Load(), after, time.Since(began).Round(time.Second), zombies.Load())
	for _, problem := range after.exceeds(before) {
		t.Error(problem)
	}
	aside.expectUnaware()
}

// seenBy returns the hub from the view of another test.
func (h *hub) seenBy(t *testing.T) *hub {
	t.Helper()
	of := *h
	of.t = t
	return &of
}

// cycle registers a Cluster, runs its life and removes it.
func (h *hub) cycle(c cycle) {
	name := unique("cycle")
	c.live(h.t, h, name)
	h.remove(name)
	h.expectGone(name)
}
