// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// registerer registers the metrics of one module. Collectors are called at each scrape of the hub's metrics: a panic
// there would end the process, and a collector that does not return would block every scrape.
type registerer struct {
	prometheus.Registerer
	guard *Guard
}

var _ prometheus.Registerer = (*registerer)(nil)

// NewRegisterer returns the registerer for the module of a guard.
func NewRegisterer(inner prometheus.Registerer, g *Guard) prometheus.Registerer {
	return &registerer{Registerer: inner, guard: g}
}

// Register registers the collector until the app ends.
func (m *registerer) Register(c prometheus.Collector) error {
	descs, ok := collectWithin(collectorPatience, func(to chan<- *prometheus.Desc) { m.guard.describe(c, to) })
	if !ok {
		return fmt.Errorf("register a metrics collector: its Describe did not return within %s", collectorPatience)
	}
	err := m.Registerer.Register(&collector{collector: c, guard: m.guard, descs: descs})
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if earlier, ok := registered.ExistingCollector.(*collector); ok {
			registered.ExistingCollector = earlier.collector
		}
		registered.NewCollector = c
		return registered
	}
	return err
}

// MustRegister registers the collectors until the app ends. It panics where Register would fail,
// as its interface demands; the panic fails the module, not the hub.
func (m *registerer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

const (
	// collectorPatience is how long a collector may take to describe itself, or to collect.
	collectorPatience = 2 * time.Second
	// collectorCalls is how many calls of a collector may run at the same time. There are several only with scrapes at
	// the same moment, or if calls do not return.
	collectorCalls = 4
)

// collector is a collector whose panics fail its module. While it does not return, scrapes leave it out.
type collector struct {
	collector prometheus.Collector
	guard     *Guard
	descs     []*prometheus.Desc // prometheus reads them with the lock of all collectors
	calls     atomic.Int32       // that have not returned
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	if c.guard.IsBroken() {
		return
	}
	if c.calls.Add(1) > collectorCalls {
		c.calls.Add(-1)
		return
	}
	metrics, ok := collectWithin(collectorPatience, func(to chan<- prometheus.Metric) {
		defer c.calls.Add(-1)
		c.guard.collect(c.collector, to)
	})
	if !ok {
		c.guard.log.Info("A metrics collector does not return; its metrics are left out until it does",
			"after", collectorPatience.String())
	}
	for _, metric := range metrics {
		to <- metric
	}
}

func (g *Guard) describe(c prometheus.Collector, to chan<- *prometheus.Desc) {
	returned := false
	defer g.check("metrics collector", &returned)
	c.Describe(to)
	returned = true
}

// collect sends the metrics of a collector with their current values: some metrics call the module only when they are
// written, in the goroutine of the scrape.
func (g *Guard) collect(c prometheus.Collector, to chan<- prometheus.Metric) {
	collected := make(chan prometheus.Metric)
	go func() {
		defer close(collected)
		returned := false
		defer g.check("metrics collector", &returned)
		c.Collect(collected)
		returned = true
	}()
	for metric := range collected {
		if written := g.write(metric); written != nil {
			to <- written
		}
	}
}

// write returns the metric with its values, or nil if writing it panics.
func (g *Guard) write(metric prometheus.Metric) prometheus.Metric {
	returned := false
	defer g.check("metric", &returned)
	one := &writtenMetric{desc: metric.Desc()}
	err := metric.Write(&one.values)
	returned = true
	if err != nil {
		return prometheus.NewInvalidMetric(metric.Desc(), err)
	}
	return one
}

// writtenMetric is a metric with the values that it had when it was written.
type writtenMetric struct {
	desc   *prometheus.Desc
	values dto.Metric
}

// Desc implements prometheus.Metric.
func (w *writtenMetric) Desc() *prometheus.Desc { return w.desc }

// Write implements prometheus.Metric.
func (w *writtenMetric) Write(to *dto.Metric) error {
	to.Label, to.TimestampMs = w.values.Label, w.values.TimestampMs
	to.Counter, to.Gauge, to.Untyped = w.values.Counter, w.values.Gauge, w.values.Untyped
	to.Summary, to.Histogram = w.values.Summary, w.values.Histogram
	return nil
}

// collectWithin returns the values that f sends, and whether f has returned in time. An f that is late continues in its
// goroutine, and its values are dropped.
func collectWithin[T any](atMost time.Duration, f func(chan<- T)) (sent []T, ok bool) {
	to := make(chan T)
	go func() {
		defer close(to)
		f(to)
	}()
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	for {
		select {
		case one, more := <-to:
			if !more {
				return sent, true
			}
			sent = append(sent, one)
		case <-patience.C:
			go func() {
				for range to { // so that f can return
				}
			}()
			return nil, false
		}
	}
}
