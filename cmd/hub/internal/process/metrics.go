// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var errTermOver = errors.New("this term of the hub is over")

// termMetrics unregisters the collectors of a term at its end, so that the next can register its own.
type termMetrics struct {
	prometheus.Registerer

	mu         sync.Mutex                      // protects the fields
	collectors map[string]prometheus.Collector // the registered collectors, by keyOf
	ended      bool
}

var _ prometheus.Registerer = (*termMetrics)(nil)

func newTermMetrics(base prometheus.Registerer) *termMetrics {
	return &termMetrics{Registerer: base, collectors: map[string]prometheus.Collector{}}
}

func (m *termMetrics) Register(c prometheus.Collector) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return errTermOver
	}
	if err := m.Registerer.Register(c); err != nil {
		return err
	}
	m.collectors[keyOf(c)] = c
	return nil
}

// Unregister drops the reference, through which the whole app would stay in memory.
func (m *termMetrics) Unregister(c prometheus.Collector) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.collectors, keyOf(c))
	return m.Registerer.Unregister(c)
}

// MustRegister panics where Register would fail, as its interface demands.
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
