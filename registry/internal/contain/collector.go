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

// registerer registers the metrics of one module. At a scrape, a panic in a collector would end the process, and one
// that does not return would block every scrape.
type registerer struct {
	prometheus.Registerer
	guard *Container
}

var _ prometheus.Registerer = (*registerer)(nil)

// NewRegisterer returns the registerer for the module of a guard.
func NewRegisterer(inner prometheus.Registerer, g *Container) prometheus.Registerer {
	return &registerer{Registerer: inner, guard: g}
}

func (m *registerer) Register(c prometheus.Collector) error {
	descs, ok := collectWithin(collectorPatience, func(to chan<- *prometheus.Desc) {
		m.guard.Call("metrics collector", func() { c.Describe(to) })
	})
	if !ok {
		return fmt.Errorf("register a metrics collector: its Describe did not return within %s", collectorPatience)
	}
	err := m.Registerer.Register(&collector{collector: c, guard: m.guard, descs: descs})
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if earlier, ok := registered.ExistingCollector.(*collector); ok {
			registered.ExistingCollector = earlier.collector
		}
		registered.NewCollector = c
		return registered
	}
	return err
}

// MustRegister panics where Register would fail, as its interface demands; that fails the module, not the hub.
func (m *registerer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

const (
	// collectorPatience is for describing and for collecting.
	collectorPatience = 2 * time.Second
	// collectorCalls may run at the same time: scrapes at the same moment, or calls that do not return.
	collectorCalls = 4
)

// Scrapes leave out a collector that does not return.
type collector struct {
	collector prometheus.Collector
	guard     *Container
	descs     []*prometheus.Desc // prometheus reads them with the lock of all collectors
	calls     atomic.Int32       // that have not returned
}

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		to <- desc
	}
}

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

// collect sends metrics with their current values: some call the module only when they are written, in the scrape's
// goroutine.
func (g *Container) collect(c prometheus.Collector, to chan<- prometheus.Metric) {
	collected := make(chan prometheus.Metric)
	go func() {
		defer close(collected)
		g.Call("metrics collector", func() { c.Collect(collected) })
	}()
	for metric := range collected {
		if written := g.write(metric); written != nil {
			to <- written
		}
	}
}

// write returns nil if writing the metric panics.
func (g *Container) write(metric prometheus.Metric) (written prometheus.Metric) {
	g.Call("metric", func() {
		one := &writtenMetric{desc: metric.Desc()}
		if err := metric.Write(&one.values); err != nil {
			written = prometheus.NewInvalidMetric(metric.Desc(), err)
			return
		}
		written = one
	})
	return written
}

type writtenMetric struct {
	desc   *prometheus.Desc
	values dto.Metric
}

func (w *writtenMetric) Desc() *prometheus.Desc { return w.desc }

func (w *writtenMetric) Write(to *dto.Metric) error {
	to.Label, to.TimestampMs = w.values.Label, w.values.TimestampMs
	to.Counter, to.Gauge, to.Untyped = w.values.Counter, w.values.Gauge, w.values.Untyped
	to.Summary, to.Histogram = w.values.Summary, w.values.Histogram
	return nil
}

// collectWithin returns the values of f, and whether f has returned in time. A late f continues in its goroutine, and
// its values are dropped.
func collectWithin[T any](atMost time.Duration, f func(chan<- T)) (sent []T, ok bool) {
	to := make(chan T)
	go func() {
		defer close(to)
		f(to)
	}()
	late := time.After(atMost)
	for {
		select {
		case one, more := <-to:
			if !more {
				return sent, true
			}
			sent = append(sent, one)
		case <-late:
			go func() {
				for range to { // so that f can return
				}
			}()
			return nil, false
		}
	}
}
