// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
)

// Registerer adds the label "cluster" to the collectors of an app, and unregisters them when the app ends, so that the
// next one can register its own.
type Registerer struct {
	prometheus.Registerer

	mu         sync.Mutex // protects the fields
	collectors []prometheus.Collector
	held       bool // another app of the same remote still has its collectors registered
	ended      bool
}

var _ prometheus.Registerer = (*Registerer)(nil)

// Register registers the collector until the app ends.
func (m *Registerer) Register(c prometheus.Collector) error {
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

// MustRegister panics where Register would fail, as its interface demands; that fails the module, not the hub.
func (m *Registerer) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

// hold delays registrations until release: an app and its replacement have the same collectors.
func (m *Registerer) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = true
}

func (m *Registerer) release(log logr.Logger) {
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

func (m *Registerer) end() {
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
