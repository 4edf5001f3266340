// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var errTermOver = errors.New("this term of the hub is over")

// termMetrics registers the collectors of one term and unregisters them all when it ends, so that
// the same modules can register theirs in the next one.
type termMetrics struct {
	prometheus.Registerer

	mu         sync.Mutex // protects the fields
	collectors []prometheus.Collector
	ended      bool
}

var _ prometheus.Registerer = (*termMetrics)(nil)

func newTermMetrics(base prometheus.Registerer) *termMetrics { return &termMetrics{Registerer: base} }

// Register registers the collector until the term ends.
func (m *termMetrics) Register(c prometheus.Collector) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return errTermOver
	}
	if err := m.Registerer.Register(c); err != nil {
		return err
	}
	m.collectors = append(m.collectors, c)
	return nil
}

// MustRegister registers the collectors until the term ends. It panics where Register would fail,
// as its interface demands.
func (m *termMetrics) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

func (m *termMetrics) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	for _, c := range m.collectors {
		m.Unregister(c)
	}
	m.collectors = nil
}
