// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// lingering is the time for which net/http keeps a closed HTTP/2 connection and everything that it references, which is
// the whole app that opened it: until the next ping is due.
const lingering = 20 * time.Second

// remembered is the time for which client-go remembers the events that a hub has sent (k8s.io/client-go/tools/events:
// six minutes, checked every six): about two KiB for each Cluster that was added and removed.
const remembered = 13 * time.Minute

// footprint has the resources that a process holds.
type footprint struct {
	goroutines, files int
	series            map[string]bool
	heap              uint64 // bytes after a garbage collection
}

func (f footprint) String() string {
	return fmt.Sprintf("heap %.2f MiB, %d goroutines, %d file descriptors, %d metric series",
		float64(f.heap)/(1<<20), f.goroutines, f.files, len(f.series))
}

// Tolerances: a few goroutines and files belong to short-lived connections, and a few series to rare responses of API
// servers. A leak of one per cycle exceeds them.
const (
	heapTolerance = 1.05
	fewGoroutines = 10
	fewFiles      = 5
	fewSeries     = 10
)

func (f footprint) exceeds(before footprint) []string {
	var all []string
	add := func(exceeded bool, what string) {
		if exceeded {
			all = append(all, what)
		}
	}
	add(float64(f.heap) > heapTolerance*float64(before.heap),
		fmt.Sprintf("the heap has grown from %d to %d bytes", before.heap, f.heap))
	add(f.goroutines > before.goroutines+fewGoroutines, fmt.Sprintf("%d goroutines, were %d", f.goroutines, before.goroutines))
	add(f.files > before.files+fewFiles, fmt.Sprintf("%d file descriptors, were %d", f.files, before.files))
	more := slices.DeleteFunc(slices.Sorted(maps.Keys(f.series)), func(s string) bool { return before.series[s] })
	add(len(more) > fewSeries, fmt.Sprintf("%d metric series more: %q", len(more), more))
	return all
}

// measureUntil measures until no value exceeds an earlier measurement, or waiting no longer helps.
func (h *hub) measureUntil(before footprint) footprint {
	h.t.Helper()
	deadline := time.Now().Add(remembered)
	for {
		now := h.measure()
		if len(now.exceeds(before)) == 0 || time.Now().After(deadline) {
			return now
		}
	}
}

// measure returns the minimum of several measurements within a second.
func (h *hub) measure() footprint {
	h.t.Helper()
	var all []footprint
	for range 5 {
		runtime.GC()
		runtime.GC() // frees objects that the first one finalized
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
		least.heap = min(least.heap, one.heap)
	}
	return least
}

// files returns the number of open file descriptors of the process.
func (h *hub) files() int {
	h.t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0 // This system has no such folder.
	}
	must(h.t, err)
	return len(entries)
}

// series returns the names of all metrics with their labels: of the registry, and of the libraries that keep metrics
// for the whole process.
func (h *hub) series() map[string]bool {
	h.t.Helper()
	all := map[string]bool{}
	for _, from := range []prometheus.Gatherer{h.metrics, ctrlmetrics.Registry, prometheus.DefaultGatherer} {
		for _, one := range seriesOf(h.t, from) {
			all[one] = true
		}
	}
	return all
}

// seriesOf returns the names of metrics with their labels.
func seriesOf(t *testing.T, from prometheus.Gatherer) []string {
	t.Helper()
	families, err := from.Gather()
	must(t, err)
	var all []string
	for _, family := range families {
		for _, metric := range family.Metric {
			name := family.GetName()
			for _, label := range metric.Label {
				name += fmt.Sprintf(" %s=%q", label.GetName(), label.GetValue())
			}
			all = append(all, name)
		}
	}
	return all
}
