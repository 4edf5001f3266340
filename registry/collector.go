// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// moduleMetrics is what one module registers its metrics with. Collectors are called in goroutines
// whenever somebody asks for the metrics of the hub, and a panic there ends the process.
type moduleMetrics struct {
	prometheus.Registerer
	guard *guard
}

var _ prometheus.Registerer = (*moduleMetrics)(nil)

// Register registers the collector until the app ends.
func (m *moduleMetrics) Register(c prometheus.Collector) error {
	err := m.Registerer.Register(&containedCollector{c, m.guard})
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
func (m *moduleMetrics) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

// containedCollector is a collector whose panics fail its module.
type containedCollector struct {
	collector prometheus.Collector
	guard     *guard
}

// Describe implements prometheus.Collector.
func (c *containedCollector) Describe(to chan<- *prometheus.Desc) {
	returned := false
	defer c.guard.check("metrics collector", &returned)
	c.collector.Describe(to)
	returned = true
}

// Collect implements prometheus.Collector.
func (c *containedCollector) Collect(to chan<- prometheus.Metric) {
	if c.guard.broken() {
		return
	}
	returned := false
	defer c.guard.check("metrics collector", &returned)
	c.collector.Collect(to)
	returned = true
}
