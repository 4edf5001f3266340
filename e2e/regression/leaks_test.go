// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/modules/inventory"
	"github.com/clusterfx/clusterfx/registry"
)

// cycle is the life of one Cluster with a name of its own: how it is registered, and what has happened to
// it when it is deleted.
type cycle struct {
	what string
	live func(t *testing.T, h *hub, name string)
}

// cycles are all ways in which a remote ends. A proxy has an address that the hub has not seen, so that
// what is kept by address shows.
func cycles() []cycle {
	return []cycle{
		{"in good order", func(t *testing.T, h *hub, name string) {
			h.register(name, clusterOf(t, one).Kubeconfig(), nil)
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
			h.register(name, clusterOf(t, one).Kubeconfig(), nil)
			<-starting
		}},
		{"before it was looked at", func(t *testing.T, h *hub, name string) {
			h.register(name, clusterOf(t, two).Kubeconfig(), nil)
		}},
		{"while its remote is refused", func(t *testing.T, h *hub, name string) {
			p, data := proxyTo(t, two)
			set(t, p, fault.Refuse())
			h.register(name, data, nil)
			h.expectUnreachable(name, hubv1.ReasonUnreachable)
		}},
		{"while its remote is silent", func(t *testing.T, h *hub, name string) {
			p, data := proxyTo(t, two)
			h.register(name, data, nil)
			h.expectReady(name)
			set(t, p, fault.Blackhole())
		}},
		{"after a panic of a module", func(t *testing.T, h *hub, name string) {
			h.scripts.set(t, registry.ClusterName(name), script{run: func(context.Context) error { panic("at the disco") }})
			h.register(name, clusterOf(t, two).Kubeconfig(), nil)
			h.expect(name, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonModuleFailed)
		}},
		{"after a change of its server", func(t *testing.T, h *hub, name string) {
			p, _ := proxyTo(t, one)
			h.register(name, clusterOf(t, one).Kubeconfig(), nil)
			h.expectReady(name)
			before := h.epochOf(name)
			h.change(name, func(c *hubv1.Cluster) { c.Spec.Server = "https://" + p.Addr() })
			eventually(t, func() error {
				if info, _ := h.registry.Info(registry.ClusterName(name)); info.Epoch == before || info.State != registry.StateReady {
					return fmt.Errorf("epoch %d is %s", info.Epoch, info.State)
				}
				return nil
			})
		}},
	}
}

// A thousand remotes that come and end in every way there is leave nothing behind in the process of the hub:
// no goroutine, no memory, no file descriptor and no metric. It runs alone, because it measures the process.
func TestLeaks_RemotesThatEndInEveryWay(t *testing.T) {
	h := newHub(t, nil)
	h.options.Modules = []registry.Module{marker(), h.scripts.module(), inventory.Module} // the listener remembers names
	h.options.Registry.Limits.StopTimeout = 2 * time.Second
	h.start()
	aside := h.registerBystander(one)

	const atOnce = 4
	warmUp := times(25, 50)
	total := times(2*warmUp, 1000+warmUp)
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
	for done.Load() < int64(warmUp) {
		round()
	}
	if allFaults() { // Otherwise a leak must be larger to show.
		<-time.After(lingering)
	}
	warm, before := done.Load(), h.measure()
	for done.Load() < int64(total) {
		round()
	}
	after := h.measureUntil(before)
	t.Logf("after %4d cycles: %s", warm, before)
	t.Logf("after %4d cycles: %s (%s; zombies were seen %d times)", done.Load(), after, time.Since(began).Round(time.Second), zombies.Load())
	for _, problem := range after.exceeds(before) {
		t.Error(problem)
	}
	aside.expectUnaware()
}

// seenBy returns the hub as another test sees it.
func (h *hub) seenBy(t *testing.T) *hub {
	t.Helper()
	of := *h
	of.t, of.registered = t, nil
	t.Cleanup(of.tidy)
	return &of
}

// cycle registers a Cluster, lets it live and removes it.
func (h *hub) cycle(c cycle) {
	name := unique("cycle")
	c.live(h.t, h, name)
	h.remove(name)
	h.expectGone(name)
}

// lingering is how long net/http keeps a closed HTTP/2 connection and what belongs to it: until it is
// time to ping.
const lingering = 20 * time.Second

// footprint is what a process holds.
type footprint struct {
	goroutines, files, series int
	heap                      uint64 // bytes after a garbage collection
}

func (f footprint) String() string {
	return fmt.Sprintf("heap %.2f MiB, %d goroutines, %d file descriptors, %d metric series",
		float64(f.heap)/(1<<20), f.goroutines, f.files, f.series)
}

// Tolerances: a few goroutines and files belong to connections that come and go; metrics do not.
const (
	heapTolerance = 1.05
	fewGoroutines = 10
	fewFiles      = 5
)

// exceeds says in what a footprint is larger than another one.
func (f footprint) exceeds(before footprint) []string {
	var all []string
	add := func(exceeded bool, what string) {
		if exceeded {
			all = append(all, what)
		}
	}
	add(float64(f.heap) > heapTolerance*float64(before.heap), fmt.Sprintf("the heap has grown from %d to %d bytes", before.heap, f.heap))
	add(f.goroutines > before.goroutines+fewGoroutines, fmt.Sprintf("%d goroutines, were %d", f.goroutines, before.goroutines))
	add(f.files > before.files+fewFiles, fmt.Sprintf("%d file descriptors, were %d", f.files, before.files))
	add(f.series > before.series, fmt.Sprintf("%d metric series, were %d", f.series, before.series))
	return all
}

// measureUntil measures until nothing exceeds a measurement of before, or nothing changes that any more.
func (h *hub) measureUntil(before footprint) footprint {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		now := h.measure()
		if len(now.exceeds(before)) == 0 || time.Now().After(deadline) {
			return now
		}
	}
}

// measure returns the least of several measurements within a second.
func (h *hub) measure() footprint {
	h.t.Helper()
	var all []footprint
	for range 5 {
		runtime.GC()
		runtime.GC() // what the first one has finalized
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		all = append(all, footprint{
			goroutines: runtime.NumGoroutine(), files: h.files(), series: h.series(), heap: memory.HeapAlloc,
		})
		<-time.After(200 * time.Millisecond)
	}
	least := all[0]
	for _, one := range all {
		least.goroutines, least.files = min(least.goroutines, one.goroutines), min(least.files, one.files)
		least.series, least.heap = min(least.series, one.series), min(least.heap, one.heap)
	}
	return least
}

// files returns how many file descriptors the process has open.
func (h *hub) files() int {
	h.t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0 // There is no such folder on this system.
	}
	must(h.t, err)
	return len(entries)
}

// series returns how many metrics there are, of the registry and of controller-runtime, without those
// that TestLeaks_AddressesOfRemotesStayInMetrics is about.
func (h *hub) series() int {
	h.t.Helper()
	n := 0
	for _, from := range []prometheus.Gatherer{h.metrics, ctrlmetrics.Registry} {
		families, err := from.Gather()
		must(h.t, err)
		for _, family := range families {
			if family.GetName() != requestsMetric {
				n += len(family.Metric)
			}
		}
	}
	return n
}

// requestsMetric is client-go's count of requests, as controller-runtime exports it: by host.
const requestsMetric = "rest_client_requests_total"

// Rule S30: where a remote is, is for whoever registers it to say. A hub that keeps a metric of each
// address that it has ever asked grows with every remote that comes, goes or moves.
func TestLeaks_AddressesOfRemotesStayInMetrics(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, nil)
	var addresses []string
	for range 5 {
		p, data := proxyTo(t, one)
		name := registry.ClusterName(unique("moving"))
		spawn(t, r, name, configFor(t, data))
		must(t, r.Stop(t.Context(), name))
		addresses = append(addresses, p.Addr())
	}
	families, err := ctrlmetrics.Registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if slices.Contains(addresses, label.GetValue()) {
					t.Errorf("%s has a series of %s, which is gone", family.GetName(), label.GetValue())
				}
			}
		}
	}
}
