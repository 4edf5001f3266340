// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// appMetrics registers an app's collectors with the label "cluster" and unregisters them all when
// the app ends, so that the next app of the same remote can register its own.
type appMetrics struct {
	prometheus.Registerer

	mu         sync.Mutex // protects the fields
	collectors []prometheus.Collector
	ended      bool
}

var _ prometheus.Registerer = (*appMetrics)(nil)

func newAppMetrics(base prometheus.Registerer, name ClusterName) *appMetrics {
	labels := prometheus.Labels{"cluster": string(name)}
	return &appMetrics{Registerer: prometheus.WrapRegistererWith(labels, base)}
}

// Register registers the collector until the app ends.
func (m *appMetrics) Register(c prometheus.Collector) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrStopped
	}
	if err := m.Registerer.Register(c); err != nil {
		return err
	}
	m.collectors = append(m.collectors, c)
	return nil
}

// MustRegister registers the collectors until the app ends. It panics where Register would fail,
// as its interface demands; the panic fails the module, not the hub.
func (m *appMetrics) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

func (m *appMetrics) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	for _, c := range m.collectors {
		m.Unregister(c)
	}
	m.collectors = nil
}
