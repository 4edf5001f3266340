// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clusterLabel is the label that says whose app a metric is about.
const clusterLabel = "cluster"

// moduleLabel is the label of metrics and profiles that names a module.
const moduleLabel = "module"

// figures are the metrics of the registry's own about its apps. They belong to no epoch: most panics
// end theirs, and two epochs of a remote may follow each other without a gap.
type figures struct {
	panics                  *prometheus.CounterVec
	partFailures            *prometheus.CounterVec
	objects, bytes, zombies *prometheus.Desc
	stale                   *prometheus.Desc
	counted
	aggregate bool // no series for each remote

	mu         sync.Mutex     // protects the fields
	caches     []*cacheOf     // of the epochs that have not ended
	leftBehind map[string]int // the apps that do not end, where there are any
}

// Cache tells what the cache of an app holds.
type Cache struct {
	// Held returns what the cache holds of each kind.
	Held func() []Held
	// Stale returns the kinds whose informers are stale.
	Stale func() []string
}

// Held is how many objects of a kind a cache holds, and how much memory they take up.
type Held struct {
	Kind           string
	Objects, Bytes int64
}

// cacheOf is the cache of the app of a remote; the name of a hub part's is empty.
type cacheOf struct {
	name string
	Cache
}

var _ prometheus.Collector = (*figures)(nil)

// newFigures registers the metrics. A registry that follows another one in the process goes on with
// its figures.
func newFigures(r prometheus.Registerer, aggregate bool) *figures {
	f := &figures{
		leftBehind: map[string]int{},
		counted:    newCounted(),
		aggregate:  aggregate,
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterfx_module_panics_total",
			Help: "Panics of modules that were contained. The module is empty for code of the hub that works on a remote.",
		}, []string{clusterLabel, moduleLabel}),
		partFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterfx_hub_part_failures_total",
			Help: "Failures of the hub part of a module, by the reason that its state has then.",
		}, []string{moduleLabel, "reason"}),
		objects: prometheus.NewDesc("clusterfx_cache_objects",
			"Objects in the cache of a remote's app; without a cluster, in the caches of hub parts.", []string{clusterLabel, "kind"}, nil),
		bytes: prometheus.NewDesc("clusterfx_cache_bytes",
			"Memory that the objects in the cache of a remote's app take up, estimated from a sample of them.",
			[]string{clusterLabel, "kind"}, nil),
		zombies: prometheus.NewDesc("clusterfx_app_zombies",
			"Apps of a remote that were fenced and do not end: goroutines of a module that ignore their context.",
			[]string{clusterLabel}, nil),
		stale: prometheus.NewDesc("clusterfx_informers_stale",
			"Kinds of objects whose informer in a remote's app has been unable to list and watch for longer than 30 s; no series for others.",
			[]string{clusterLabel, "kind"}, nil),
	}
	var registered prometheus.AlreadyRegisteredError
	if errors.As(r.Register(f), &registered) {
		if earlier, ok := registered.ExistingCollector.(*figures); ok {
			return earlier
		}
	}
	return f
}

// Describe implements prometheus.Collector.
func (f *figures) Describe(to chan<- *prometheus.Desc) {
	f.panics.Describe(to)
	f.partFailures.Describe(to)
	to <- f.objects
	to <- f.bytes
	to <- f.zombies
	to <- f.stale
	f.describe(to)
}

// cluster returns the value of the label of a remote: where all are counted together, none.
func (f *figures) cluster(name string) string {
	if f.aggregate {
		return ""
	}
	return name
}

// Collect implements prometheus.Collector. It reports what the last counts found and waits for no app.
func (f *figures) Collect(to chan<- prometheus.Metric) {
	f.panics.Collect(to)
	f.partFailures.Collect(to)
	f.collect(to)
	type series struct{ cluster, kind string }
	sums := map[series]Held{}
	f.mu.Lock()
	caches := slices.Clone(f.caches)
	leftBehind := maps.Clone(f.leftBehind)
	f.mu.Unlock()
	zombies := map[string]int{}
	for name, n := range leftBehind {
		zombies[f.cluster(name)] += n
	}
	for cluster, n := range zombies {
		to <- prometheus.MustNewConstMetric(f.zombies, prometheus.GaugeValue, float64(n), cluster)
	}
	stale := map[series]int{}
	for _, c := range caches {
		for _, held := range c.Held() {
			one := series{f.cluster(c.name), held.Kind}
			sum := sums[one]
			sums[one] = Held{held.Kind, sum.Objects + held.Objects, sum.Bytes + held.Bytes}
		}
		for _, kind := range c.Stale() {
			stale[series{f.cluster(c.name), kind}]++
		}
	}
	for one, n := range stale {
		to <- prometheus.MustNewConstMetric(f.stale, prometheus.GaugeValue, float64(n), one.cluster, one.kind)
	}
	for one := range maps.Keys(sums) {
		to <- prometheus.MustNewConstMetric(f.objects, prometheus.GaugeValue,
			float64(sums[one].Objects), one.cluster, one.kind)
		to <- prometheus.MustNewConstMetric(f.bytes, prometheus.GaugeValue,
			float64(sums[one].Bytes), one.cluster, one.kind)
	}
}

// follow reports what the cache of an app holds until ctx ends.
func (f *figures) follow(ctx context.Context, name string, c Cache) {
	one := &cacheOf{name, c}
	f.mu.Lock()
	f.caches = append(f.caches, one)
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.caches = slices.DeleteFunc(f.caches, func(other *cacheOf) bool { return other == one })
	})
}

// leaveBehind counts an app that does not end, or no longer, if n is negative.
func (f *figures) leaveBehind(name string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leftBehind[name] += n; f.leftBehind[name] == 0 {
		delete(f.leftBehind, name)
	}
}

// forget drops the series of a remote that is gone.
func (f *figures) forget(name string) {
	if f.aggregate {
		return
	}
	f.panics.DeletePartialMatch(prometheus.Labels{clusterLabel: name})
	f.counted.forget(name)
}

// probed counts a probe, with the reason of its failure; empty where it succeeded.
func (f *figures) probed(cluster, failure string, took time.Duration) {
	result := "success"
	if failure != "" {
		result = "failure"
		f.probeFailures.WithLabelValues(f.cluster(cluster), failure).Inc()
	}
	f.probes.WithLabelValues(result).Observe(took.Seconds())
}

// started notes how long the start of an app took.
func (f *figures) started(took time.Duration) { f.starts.Observe(took.Seconds()) }

// appFailed counts a failure of an app.
func (f *figures) appFailed(cluster, reason string) {
	f.failures.WithLabelValues(f.cluster(cluster), reason).Inc()
}

// partFailed counts a failure of a hub part.
func (f *figures) partFailed(module, reason string) {
	f.partFailures.WithLabelValues(module, reason).Inc()
}

// panicked counts a panic of a module, or of code of the hub that works on a remote.
func (f *figures) panicked(cluster, module string) {
	f.panics.WithLabelValues(f.cluster(cluster), module).Inc()
}

// reconciled counts a call of a reconciler.
func (f *figures) reconciled(cluster, module, outcome string) {
	f.reconciles.WithLabelValues(f.cluster(cluster), module, outcome).Inc()
}

// reconcileTook notes how long a call of a reconciler took.
func (f *figures) reconcileTook(module string, took time.Duration) {
	f.durations.WithLabelValues(module).Observe(took.Seconds())
}
