// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ClusterLabel is the label that says whose app a metric is about.
const ClusterLabel = "cluster"

// ModuleLabel is the label of metrics and profiles that names a module.
const ModuleLabel = "module"

// Metrics are the metrics of the registry's own about its apps. They belong to no epoch: most panics
// end theirs, and two epochs of a remote may follow each other without a gap.
type Metrics struct {
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

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics registers the metrics. A registry that follows another one in the process goes on with
// its figures.
func NewMetrics(r prometheus.Registerer, aggregate bool) *Metrics {
	f := &Metrics{
		leftBehind: map[string]int{},
		counted:    newCounted(),
		aggregate:  aggregate,
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterfx_module_panics_total",
			Help: "Panics of modules that were contained. The module is empty for code of the hub that works on a remote.",
		}, []string{ClusterLabel, ModuleLabel}),
		partFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterfx_hub_part_failures_total",
			Help: "Failures of the hub part of a module, by the reason that its state has then.",
		}, []string{ModuleLabel, "reason"}),
		objects: prometheus.NewDesc("clusterfx_cache_objects",
			"Objects in the cache of a remote's app; without a cluster, in the caches of hub parts.", []string{ClusterLabel, "kind"}, nil),
		bytes: prometheus.NewDesc("clusterfx_cache_bytes",
			"Memory that the objects in the cache of a remote's app take up, estimated from a sample of them.",
			[]string{ClusterLabel, "kind"}, nil),
		zombies: prometheus.NewDesc("clusterfx_app_zombies",
			"Apps of a remote that were fenced and do not end: goroutines of a module that ignore their context.",
			[]string{ClusterLabel}, nil),
		stale: prometheus.NewDesc("clusterfx_informers_stale",
			"Kinds of objects whose informer in a remote's app has been unable to list and watch for longer than 30 s; no series for others.",
			[]string{ClusterLabel, "kind"}, nil),
	}
	var registered prometheus.AlreadyRegisteredError
	if errors.As(r.Register(f), &registered) {
		if earlier, ok := registered.ExistingCollector.(*Metrics); ok {
			return earlier
		}
	}
	return f
}

// Describe implements prometheus.Collector.
func (f *Metrics) Describe(to chan<- *prometheus.Desc) {
	f.panics.Describe(to)
	f.partFailures.Describe(to)
	to <- f.objects
	to <- f.bytes
	to <- f.zombies
	to <- f.stale
	f.describe(to)
}

// cluster returns the value of the label of a remote: where all are counted together, none.
func (f *Metrics) cluster(name string) string {
	if f.aggregate {
		return ""
	}
	return name
}

// Collect implements prometheus.Collector. It reports what the last counts found and waits for no app.
func (f *Metrics) Collect(to chan<- prometheus.Metric) {
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

// FollowCache reports what the cache of an app holds until ctx ends.
func (f *Metrics) FollowCache(ctx context.Context, name string, c Cache) {
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

// AddZombies counts an app that does not end, or no longer, if n is negative.
func (f *Metrics) AddZombies(name string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leftBehind[name] += n; f.leftBehind[name] == 0 {
		delete(f.leftBehind, name)
	}
}

// Forget drops the series of a remote that is gone.
func (f *Metrics) Forget(name string) {
	if f.aggregate {
		return
	}
	f.panics.DeletePartialMatch(prometheus.Labels{ClusterLabel: name})
	f.counted.forget(name)
}

// ObserveProbe counts a probe, with the reason of its failure; empty where it succeeded.
func (f *Metrics) ObserveProbe(cluster, failure string, took time.Duration) {
	result := "success"
	if failure != "" {
		result = "failure"
		f.probeFailures.WithLabelValues(f.cluster(cluster), failure).Inc()
	}
	f.probes.WithLabelValues(result).Observe(took.Seconds())
}

// ObserveStart notes how long the start of an app took.
func (f *Metrics) ObserveStart(took time.Duration) { f.starts.Observe(took.Seconds()) }

// CountAppFailure counts a failure of an app.
func (f *Metrics) CountAppFailure(cluster, reason string) {
	f.failures.WithLabelValues(f.cluster(cluster), reason).Inc()
}

// CountHubPartFailure counts a failure of a hub part.
func (f *Metrics) CountHubPartFailure(module, reason string) {
	f.partFailures.WithLabelValues(module, reason).Inc()
}

// CountPanic counts a panic of a module, or of code of the hub that works on a remote.
func (f *Metrics) CountPanic(cluster, module string) {
	f.panics.WithLabelValues(f.cluster(cluster), module).Inc()
}

// CountReconcile counts a call of a reconciler.
func (f *Metrics) CountReconcile(cluster, module, outcome string) {
	f.reconciles.WithLabelValues(f.cluster(cluster), module, outcome).Inc()
}

// ObserveReconcile notes how long a call of a reconciler took.
func (f *Metrics) ObserveReconcile(module string, took time.Duration) {
	f.durations.WithLabelValues(module).Observe(took.Seconds())
}
