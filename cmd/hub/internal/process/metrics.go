// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var errHubOver = errors.New("this hub has ended")

// hubMetrics unregisters the collectors of a hub at its end, so that another can run in the process.
type hubMetrics struct {
	prometheus.Registerer

	mu         sync.Mutex                      // protects the fields
	collectors map[string]prometheus.Collector // the registered collectors, by keyOf
	ended      bool
}

var _ prometheus.Registerer = (*hubMetrics)(nil)

func newHubMetrics(base prometheus.Registerer) *hubMetrics {
	return &hubMetrics{Registerer: base, collectors: map[string]prometheus.Collector{}}
}

func (m *hubMetrics) Register(c prometheus.Collector) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return errHubOver
	}
	if err := m.Registerer.Register(c); err != nil {
		return err
	}
	m.collectors[keyOf(c)] = c
	return nil
}

// Unregister drops the reference, through which the whole app would stay in memory.
func (m *hubMetrics) Unregister(c prometheus.Collector) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.collectors, keyOf(c))
	return m.Registerer.Unregister(c)
}

// MustRegister panics where Register would fail, as its interface demands.
func (m *hubMetrics) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := m.Register(c); err != nil {
			panic(err)
		}
	}
}

func (m *hubMetrics) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	for _, c := range m.collectors {
		m.Registerer.Unregister(c)
	}
	m.collectors = nil
}

// keyOf goes by the descriptions, as prometheus does: the collector to unregister often has another wrapper.
func keyOf(c prometheus.Collector) string {
	to := make(chan *prometheus.Desc)
	go func() {
		defer close(to)
		c.Describe(to)
	}()
	var descs []string
	for desc := range to {
		descs = append(descs, desc.String())
	}
	slices.Sort(descs)
	return strings.Join(slices.Compact(descs), "\n")
}
