// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// counted are the metrics of what apps and probes have done. The series of a remote go when it does.
type counted struct {
	probes        *prometheus.HistogramVec // by result
	probeFailures *prometheus.CounterVec
	starts        prometheus.Histogram
	failures      *prometheus.CounterVec
	requests      *prometheus.CounterVec
	throttled     *prometheus.CounterVec
	reconciles    *prometheus.CounterVec
	durations     *prometheus.HistogramVec // of reconciles, by module
}

func newCounted() counted {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "clusterfx_" + name, Help: help}, labels)
	}
	durations := func(name, help string, buckets ...float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "clusterfx_" + name, Help: help, Buckets: buckets}
	}
	return counted{
		probes: prometheus.NewHistogramVec(durations("probe_duration_seconds", "How long probes of remotes took.",
			.005, .02, .05, .1, .25, .5, 1, 3, 10), []string{"result"}),
		probeFailures: counter("probe_failures_total", "Probes that a remote failed.", ClusterLabel, "reason"),
		starts: prometheus.NewHistogram(durations("app_start_duration_seconds",
			"How long apps took from their turn to start until every controller had its objects.",
			.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)),
		failures:  counter("app_failures_total", "Apps that failed, by the reason that ModulesReady has then.", ClusterLabel, "reason"),
		requests:  counter("remote_requests_total", "Requests of apps to their remote: 2xx to 5xx, or error for no answer.", ClusterLabel, "code"),
		throttled: counter("remote_throttle_seconds_total", "How long requests of apps waited for the rate limit of their remote.", ClusterLabel),
		reconciles: counter("reconcile_total", "Calls of supervised reconcilers: success, requeue_after, error or panic.",
			ClusterLabel, ModuleLabel, "result"),
		durations: prometheus.NewHistogramVec(durations("reconcile_duration_seconds", "How long calls of supervised reconcilers took.",
			.001, .005, .025, .1, .5, 1, 5, 10, 60), []string{ModuleLabel}),
	}
}

func (c *counted) all() []prometheus.Collector {
	return []prometheus.Collector{
		c.probes, c.probeFailures, c.starts, c.failures, c.requests, c.throttled, c.reconciles, c.durations,
	}
}

func (c *counted) describe(to chan<- *prometheus.Desc) {
	for _, one := range c.all() {
		one.Describe(to)
	}
}

func (c *counted) collect(to chan<- prometheus.Metric) {
	for _, one := range c.all() {
		one.Collect(to)
	}
}

// forget drops the series of a remote that is gone.
func (c *counted) forget(name string) {
	of := prometheus.Labels{ClusterLabel: name}
	for _, vec := range []*prometheus.CounterVec{c.probeFailures, c.failures, c.requests, c.throttled, c.reconciles} {
		vec.DeletePartialMatch(of)
	}
}

func (f *Metrics) Traffic(name string) *transport.Traffic {
	label := f.cluster(name)
	t := &transport.Traffic{Throttled: f.throttled.WithLabelValues(label)}
	for i, code := range []string{"error", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		t.ByClass[i] = f.requests.WithLabelValues(label, code)
	}
	return t
}
