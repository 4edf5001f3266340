// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry/internal/transport"
)

// ClusterLabel is the label of metrics and profiles that names the remote of an app.
const ClusterLabel = "cluster"

// ModuleLabel is the label of metrics and profiles that names a module.
const ModuleLabel = "module"

// Metrics are the registry's about its apps. A parameter cluster is a remote, or empty for a hub part; Forget deletes a
// remote's series. It is safe for many goroutines.
type Metrics struct {
	vectors
	gauges
	aggregate bool     // one series for all remotes
	caches    sync.Map // *cacheOf of the apps that have not ended
}

// Figures reports the content of an app's cache: how many objects of a kind it holds, and their memory, and kinds with a stale
// informer.
type Figures func(held func(kind string, objects, bytes int64), stale func(kind string))

type cacheOf struct {
	cluster string
	figures Figures
	measure func()
}

// NewMetrics registers the metrics, or returns those of an earlier registry of the process. With aggregate, all remotes
// share one series.
func NewMetrics(r prometheus.Registerer, aggregate bool) *Metrics {
	m := &Metrics{vectors: newVectors(), gauges: newGauges(), aggregate: aggregate}
	registered, _ := errors.AsType[prometheus.AlreadyRegisteredError](r.Register(m))
	if earlier, ok := registered.ExistingCollector.(*Metrics); ok {
		return earlier
	}
	return m
}

// label is empty if all remotes share one series.
func (m *Metrics) label(cluster string) string {
	if m.aggregate {
		return ""
	}
	return cluster
}

// ObserveProbe records a probe. failure is a reason, or empty.
func (m *Metrics) ObserveProbe(cluster, failure string, took time.Duration) {
	result := "success"
	if failure != "" {
		result = "failure"
		m.probeFailures.of(m.label(cluster), failure).Inc()
	}
	m.probes.WithLabelValues(result).Observe(took.Seconds())
}

// ObserveStart records the duration of the start of an app.
func (m *Metrics) ObserveStart(took time.Duration) { m.starts.Observe(took.Seconds()) }

// ObserveReconcile records the duration of a call of a reconciler.
func (m *Metrics) ObserveReconcile(module string, took time.Duration) {
	m.durations.WithLabelValues(module).Observe(took.Seconds())
}

// CountReconcile counts a call of a reconciler.
func (m *Metrics) CountReconcile(cluster, module, outcome string) {
	m.reconciles.of(m.label(cluster), module, outcome).Inc()
}

// CountAppFailure counts a failure of an app.
func (m *Metrics) CountAppFailure(cluster, reason string) {
	m.failures.of(m.label(cluster), reason).Inc()
}

// CountHubPartFailure counts a failure of the hub part of a module.
func (m *Metrics) CountHubPartFailure(module, reason string) {
	m.partFailures.WithLabelValues(module, reason).Inc()
}

// CountPanic counts a panic. module is empty for code of the hub that works on a remote.
func (m *Metrics) CountPanic(cluster, module string) {
	m.panics.of(m.label(cluster), module).Inc()
}

// CountDeletes counts deleted objects, with the kind of their evidence, or "".
func (m *Metrics) CountDeletes(cluster, module, evidence string, objects int) {
	m.deletes.of(m.label(cluster), module, evidence).Add(float64(objects))
}

// CountHeldDelete counts a delete of a module that was refused.
func (m *Metrics) CountHeldDelete(cluster, module, reason string) {
	m.deletesHeld.of(m.label(cluster), module, reason).Inc()
}

// Traffic returns the counters of the requests of an app to its remote.
func (m *Metrics) Traffic(cluster string) *transport.Traffic {
	label := m.label(cluster)
	t := &transport.Traffic{Throttled: m.throttled.of(label)}
	for i, code := range []string{"error", "1xx", "2xx", "3xx", "4xx", "5xx"} {
		t.ByClass[i] = m.requests.of(label, code)
	}
	return t
}

// Measure has the next figures of the caches of a cluster be those of now.
func (m *Metrics) Measure(cluster string) {
	m.caches.Range(func(one, _ any) bool {
		if c, _ := one.(*cacheOf); c.cluster == cluster {
			c.measure()
		}
		return true
	})
}

// FollowCache reports the content of the cache of an app until ctx ends. Figures are those of the last measurement.
func (m *Metrics) FollowCache(ctx context.Context, cluster string, measure func(), f Figures) {
	followed := &cacheOf{cluster, f, measure}
	m.caches.Store(followed, nil)
	context.AfterFunc(ctx, func() { m.caches.Delete(followed) })
}

// AddZombies changes the number of the apps of a remote that were stopped and do not end.
func (m *Metrics) AddZombies(cluster string, n int) {
	m.zombies.WithLabelValues(m.label(cluster)).Add(float64(n))
}

// Forget deletes the series of a remote that the registry no longer has.
func (m *Metrics) Forget(cluster string) {
	if !m.aggregate {
		m.forget(cluster)
	}
}
