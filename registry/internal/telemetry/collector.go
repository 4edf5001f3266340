// SPDX-License-Identifier: Apache-2.0

package telemetry

import "github.com/prometheus/client_golang/prometheus"

// vectors are updated when something happens.
type vectors struct {
	probes        *prometheus.HistogramVec // by result
	probeFailures *remoteCounters
	starts        prometheus.Histogram
	failures      *remoteCounters
	requests      *remoteCounters
	throttled     *remoteCounters
	reconciles    *remoteCounters
	durations     *prometheus.HistogramVec // of reconciles, by module
	panics        *remoteCounters
	partFailures  *prometheus.CounterVec
	deletes       *remoteCounters // of objects, by evidence
	deletesHeld   *remoteCounters
	zombies       *prometheus.GaugeVec // after the end of a remote, too
}

func newVectors() vectors {
	options := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "clusterfx_" + name, Help: help}
	}
	counter := func(name, help string, labels ...string) *remoteCounters {
		return newRemoteCounters(options(name, help), labels...)
	}
	durations := func(name, help string, buckets ...float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "clusterfx_" + name, Help: help, Buckets: buckets}
	}
	return vectors{
		probes: prometheus.NewHistogramVec(durations("probe_duration_seconds", "How long probes of remotes took.",
			.005, .02, .05, .1, .25, .5, 1, 3, 10), []string{"result"}),
		probeFailures: counter("probe_failures_total", "Probes that a remote failed.", "reason"),
		starts: prometheus.NewHistogram(durations("app_start_duration_seconds",
			"How long apps took from their turn to start until every controller had its objects.",
			.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)),
		failures:  counter("app_failures_total", "Apps that failed, by the reason that ModulesReady has then.", "reason"),
		requests:  counter("remote_requests_total", "Requests of apps to their remote: 2xx to 5xx, or error without a response.", "code"),
		throttled: counter("remote_throttle_seconds_total", "How long requests of apps waited for the rate limit of their remote."),
		reconciles: counter("reconcile_total", "Calls of supervised reconcilers: success, requeue_after, error or panic.",
			ModuleLabel, "result"),
		durations: prometheus.NewHistogramVec(durations("reconcile_duration_seconds", "How long calls of supervised reconcilers took.",
			.001, .005, .025, .1, .5, 1, 5, 10, 60), []string{ModuleLabel}),
		panics: counter("module_panics_total",
			"Panics of modules that were contained. The module is empty for code of the hub that works on a remote.",
			ModuleLabel),
		partFailures: prometheus.NewCounterVec(options("hub_part_failures_total",
			"Failures of the hub part of a module, by the reason that its state has then."), []string{ModuleLabel, "reason"}),
		deletes: counter("deletes_total",
			"Objects that modules have deleted in a remote, or without a cluster in the hub, by their evidence; without evidence they are limited. A collection that was deleted with evidence counts as one.",
			ModuleLabel, "evidence"),
		deletesHeld: counter("deletes_held_total", "Deletes of modules that were refused, by reason.",
			ModuleLabel, "reason"),
		zombies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clusterfx_app_zombies",
			Help: "Apps of a remote that were fenced and do not end: goroutines of a module that ignore their context.",
		}, []string{ClusterLabel}),
	}
}

func (v *vectors) all() []prometheus.Collector {
	return []prometheus.Collector{
		v.panics, v.partFailures, v.probes, v.probeFailures, v.starts, v.failures, v.requests, v.throttled, v.reconciles, v.durations,
		v.deletes, v.deletesHeld, v.zombies,
	}
}

func (v *vectors) forget(cluster string) {
	for _, vector := range v.all() {
		if counters, ok := vector.(*remoteCounters); ok {
			counters.forget(cluster)
		}
	}
}

// gauges are computed when they are collected.
type gauges struct {
	objects, bytes, stale *prometheus.Desc
}

func newGauges() gauges {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("clusterfx_"+name, help, []string{ClusterLabel, "kind"}, nil)
	}
	return gauges{
		objects: desc("cache_objects", "Objects in the cache of a remote's app; without a cluster, in the caches of hub parts."),
		bytes: desc("cache_bytes",
			"Memory that the objects in the cache of a remote's app take up, estimated from a sample of them."),
		stale: desc("informers_stale",
			"Kinds of objects whose informer in a remote's app has been unable to list and watch for longer than Limits.StaleAfter (default 30 s); no series for others."),
	}
}

var _ prometheus.Collector = (*Metrics)(nil)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, vector := range m.all() {
		vector.Describe(to)
	}
	for _, gauge := range []*prometheus.Desc{m.objects, m.bytes, m.stale} {
		to <- gauge
	}
}

// Collect implements prometheus.Collector, with the last counts of the caches. It waits for no app.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, vector := range m.all() {
		vector.Collect(to)
	}
	gauge := func(desc *prometheus.Desc, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	held, stale := m.sum()
	for s, n := range stale {
		gauge(m.stale, n, s.cluster, s.kind)
	}
	for s, sum := range held {
		gauge(m.objects, sum.objects, s.cluster, s.kind)
		gauge(m.bytes, sum.bytes, s.cluster, s.kind)
	}
}

type series struct{ cluster, kind string }

type amount struct{ objects, bytes int64 }

// sum adds up caches that share a series: those of hub parts, of an app and its replacement, or of all remotes.
func (m *Metrics) sum() (held map[series]amount, stale map[series]int64) {
	held, stale = map[series]amount{}, map[series]int64{}
	m.caches.Range(func(one, _ any) bool {
		c, _ := one.(*cacheOf)
		cluster := m.label(c.cluster)
		c.figures(func(kind string, objects, bytes int64) {
			s := series{cluster, kind}
			held[s] = amount{held[s].objects + objects, held[s].bytes + bytes}
		}, func(kind string) { stale[series{cluster, kind}]++ })
		return true
	})
	return held, stale
}
