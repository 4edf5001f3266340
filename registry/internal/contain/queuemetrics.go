// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// QueueMetrics are controller-runtime's vectors for all queues of a hub.
type QueueMetrics struct {
	base                time.Time
	depth               *prometheus.GaugeVec
	adds, retries       *prometheus.CounterVec
	latency, duration   *prometheus.HistogramVec
	unfinished, longest *prometheus.GaugeVec

	mu     sync.Mutex // protects the field below
	byName map[string]*series
}

// NewQueueMetrics returns the metrics in a registry, and registers missing ones. controller-runtime does not export its
// vectors, but registering one with the same description yields them.
func NewQueueMetrics(r prometheus.Registerer) *QueueMetrics {
	labels := []string{"name", "controller"}
	options := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help}
	}
	gauge := func(name, help string, more ...string) *prometheus.GaugeVec {
		return register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts(options(name, help)), append(labels, more...)))
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return register(r, prometheus.NewCounterVec(prometheus.CounterOpts(options(name, help)), labels))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: metrics.WorkQueueSubsystem, Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(10e-9, 10, 12), NativeHistogramBucketFactor: 1.1,
			NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}, labels))
	}
	return &QueueMetrics{
		base: time.Now(), byName: map[string]*series{},
		depth: gauge(metrics.DepthKey, "Current depth of workqueue by workqueue and priority", "priority"),
		adds:  counter(metrics.AddsKey, "Total number of adds handled by workqueue"),
		retries: counter(metrics.RetriesKey, "Total number of items added to the workqueue with a non-zero delay "+
			"(rate-limited requeues, explicit RequeueAfter or AddAfter calls)"),
		latency:  histogram(metrics.QueueLatencyKey, "How long in seconds an item stays in workqueue before being requested"),
		duration: histogram(metrics.WorkDurationKey, "How long in seconds processing an item from workqueue takes."),
		unfinished: gauge(metrics.UnfinishedWorkKey, "How many seconds of work has been done that is in progress and "+
			"hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of "+
			"stuck threads by observing the rate at which this increases."),
		longest: gauge(metrics.LongestRunningProcessorKey, "How many seconds has the longest running processor for "+
			"workqueue been running."),
	}
}

// register returns what the registry has with the same description, or registers c. If it refuses c, the values of c
// are not exported.
func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	registered, _ := errors.AsType[prometheus.AlreadyRegisteredError](r.Register(c))
	if existing, ok := registered.ExistingCollector.(C); ok {
		return existing
	}
	return c
}

func (m *QueueMetrics) of(name string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.byName[name]
	if s == nil {
		s = &series{
			base: m.base, depths: map[int]prometheus.Gauge{},
			depth: func(priority string) prometheus.Gauge { return m.depth.WithLabelValues(name, name, priority) },
			adds:  m.adds.WithLabelValues(name, name), retries: m.retries.WithLabelValues(name, name),
			latency: m.latency.WithLabelValues(name, name), duration: m.duration.WithLabelValues(name, name),
			unfinished: m.unfinished.WithLabelValues(name, name), longest: m.longest.WithLabelValues(name, name),
		}
		m.byName[name] = s
	}
	return s
}

// series are the metrics of a name. The methods of nil do nothing.
type series struct {
	base                time.Time
	depth               func(priority string) prometheus.Gauge
	adds, retries       prometheus.Counter
	latency, duration   prometheus.Observer
	unfinished, longest prometheus.Gauge

	mu      sync.Mutex // protects the fields below
	depths  map[int]prometheus.Gauge
	running []*work
	sampler *time.Timer // nil while nothing is in work
}

type work struct {
	began time.Duration // since base
	index int           // in series.running
}

const (
	// samplePeriod is controller-runtime's.
	samplePeriod = 500 * time.Millisecond
	// maxPriorities have a depth of their own, the others one together, as otherPriorities.
	maxPriorities   = 25
	otherPriorities = "exceeded_cardinality_limit"
)

func (s *series) retried() {
	if s != nil {
		s.retries.Inc()
	}
}

func (s *series) added(priority int) {
	if s == nil {
		return
	}
	s.adds.Inc()
	s.deepen(priority, 1)
}

// deepen changes the depth of a priority.
func (s *series) deepen(priority int, by float64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.depthOf(priority).Add(by)
}

// depthOf needs the lock.
func (s *series) depthOf(priority int) prometheus.Gauge {
	g := s.depths[priority]
	switch {
	case g != nil:
	case len(s.depths) < maxPriorities:
		g = s.depth(strconv.Itoa(priority))
		s.depths[priority] = g
	default:
		g = s.depth(otherPriorities)
	}
	return g
}

func (s *series) began(w *work, now, waited time.Duration, priority int) {
	s.latency.Observe(waited.Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.depthOf(priority).Dec()
	w.began, w.index = now, len(s.running)
	s.running = append(s.running, w)
	if s.sampler == nil {
		s.sampler = time.AfterFunc(samplePeriod, s.sample)
	}
}

func (s *series) ended(w *work, now time.Duration) {
	s.duration.Observe((now - w.began).Seconds())
	s.abandoned(w)
}

func (s *series) abandoned(w *work) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.index >= len(s.running) || s.running[w.index] != w {
		return
	}
	last := len(s.running) - 1
	s.running[w.index] = s.running[last]
	s.running[w.index].index = w.index
	s.running[last] = nil
	s.running = s.running[:last]
}

// sample is the timer's function, for as long as there are items in work.
func (s *series) sample() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.base)
	var sum, oldest time.Duration
	for _, w := range s.running {
		age := now - w.began
		sum += age
		oldest = max(oldest, age)
	}
	s.unfinished.Set(sum.Seconds())
	s.longest.Set(oldest.Seconds())
	if len(s.running) == 0 {
		s.sampler = nil
		return
	}
	s.sampler.Reset(samplePeriod)
}
