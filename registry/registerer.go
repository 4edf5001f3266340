// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// appMetrics registers an app's collectors with the label "cluster" and unregisters them all when
// the app ends, so that the next app of the same remote can register its own.
type appMetrics struct {
	prometheus.Registerer

	mu         sync.Mutex // protects the fields
	collectors []prometheus.Collector
	held       bool // another app of the same remote still has its collectors registered
	ended      bool
}

var _ prometheus.Registerer = (*appMetrics)(nil)

func newAppMetrics(base prometheus.Registerer, name ClusterName) *appMetrics {
	labels := prometheus.Labels{telemetry.ClusterLabel: string(name)}
	return &appMetrics{Registerer: prometheus.WrapRegistererWith(labels, base)}
}

// Register registers the collector until the app ends.
func (m *appMetrics) Register(c prometheus.Collector) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrStopped
	}
	if !m.held {
		if err := m.Registerer.Register(c); err != nil {
			return err
		}
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

// hold delays registrations until release: two apps of a remote, of which one replaces the other, have the same
// collectors.
func (m *appMetrics) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
}

func (m *appMetrics) release(log logr.Logger) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.held || m.ended {
		return
	}
	m.held = false
	for _, c := range m.collectors {
		if err := m.Registerer.Register(c); err != nil {
			log.Error(err, "Could not register a module's metrics")
		}
	}
}

func (m *appMetrics) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.ended = true
	for _, c := range m.collectors {
		if !m.held {
			m.Unregister(c)
		}
	}
	m.collectors = nil
}
