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

// Registerer is what one module registers its metrics with. Collectors are called whenever somebody
// asks for the metrics of the hub: a panic there would end the process, and one that does not return
// would keep everybody's metrics from being read.
type Registerer struct {
	prometheus.Registerer
	guard *Guard
}

var _ prometheus.Registerer = (*Registerer)(nil)

// NewRegisterer returns what the module of a guard registers its metrics with.
func NewRegisterer(inner prometheus.Registerer, g *Guard) prometheus.Registerer {
	return &Registerer{Registerer: inner, guard: g}
}

// Register registers the collector until the app ends.
func (m *Registerer) Register(c prometheus.Collector) error {
	descs, ok := within(collectorPatience, func(to chan<- *prometheus.Desc) { m.guard.describe(c, to) })
	if !ok {
		return fmt.Errorf("register a metrics collector: its Describe did not return within %s", collectorPatience)
	}
	err := m.Registerer.Register(&containedCollector{collector: c, guard: m.guard, descs: descs})
	var registered prometheus.AlreadyRegisteredError
	if errors.As(err, &registered) {
		if earlier, ok := registered.ExistingCollector.(*containedCollector); ok {
			registered.ExistingCollector = earlier.collector
		}
		registered.NewCollector = c
		return registered
	}
	return err
}

// MustRegister registers the collectors until the app ends. It panics where Register would fail,
// as its interface demands; the panic fails the module, not the hub.
func (m *Registerer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

const (
	// collectorPatience is how long a collector may take to describe itself, or to collect.
	collectorPatience = 2 * time.Second
	// collectorCalls is how many calls of a collector may run at the same time. There are several only
	// if several scrape the hub in the same moment, or if they do not return.
	collectorCalls = 4
)

// containedCollector is a collector whose panics fail its module, and that is left out when it does
// not return.
type containedCollector struct {
	collector prometheus.Collector
	guard     *Guard
	descs     []*prometheus.Desc // prometheus asks for them with the lock of all collectors
	calls     atomic.Int32       // that have not returned
}

// Describe implements prometheus.Collector.
func (c *containedCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *containedCollector) Collect(to chan<- prometheus.Metric) {
	if c.guard.IsBroken() {
		return
	}
	if c.calls.Add(1) > collectorCalls {
		c.calls.Add(-1)
		return
	}
	metrics, ok := within(collectorPatience, func(to chan<- prometheus.Metric) {
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

// collect sends what a collector collects, as it is now: some metrics call the module only when they are
// written down, which is in whichever goroutine asks for the metrics of the hub.
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

// write returns a metric that is written down, or nil if that panics.
func (g *Guard) write(metric prometheus.Metric) prometheus.Metric {
	returned := false
	defer g.check("metric", &returned)
	one := &written{desc: metric.Desc()}
	err := metric.Write(&one.values)
	returned = true
	if err != nil {
		return prometheus.NewInvalidMetric(metric.Desc(), err)
	}
	return one
}

// written is a metric with the values that it had.
type written struct {
	desc   *prometheus.Desc
	values dto.Metric
}

// Desc implements prometheus.Metric.
func (w *written) Desc() *prometheus.Desc { return w.desc }

// Write implements prometheus.Metric.
func (w *written) Write(to *dto.Metric) error {
	to.Label, to.TimestampMs = w.values.Label, w.values.TimestampMs
	to.Counter, to.Gauge, to.Untyped = w.values.Counter, w.values.Gauge, w.values.Untyped
	to.Summary, to.Histogram = w.values.Summary, w.values.Histogram
	return nil
}

// within returns what f sends, and whether f returned in time. An f that does not goes on in its
// goroutine, and what it sends then is dropped.
func within[T any](atMost time.Duration, f func(chan<- T)) (sent []T, ok bool) {
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
