// SPDX-License-Identifier: Apache-2.0

package liveness

import "github.com/prometheus/client_golang/prometheus"

var _ prometheus.Collector = (*Monitor)(nil)

func newDesc() *prometheus.Desc {
	return prometheus.NewDesc("clusterfx_heartbeats_missed",
		"Heartbeats that a controller of the hub, or the goroutine of a remote, has missed in a row; 3 fail /healthz. "+
			"Remotes only where it is not 0.",
		[]string{"cluster", "controller", "module"}, nil)
}

// Describe implements prometheus.Collector.
func (m *Monitor) Describe(to chan<- *prometheus.Desc) { to <- m.desc }

// Collect implements prometheus.Collector.
func (m *Monitor) Collect(to chan<- prometheus.Metric) {
	missed := map[Subject]int{}
	m.mu.Lock()
	for h := range m.hearts {
		if h.subject.Cluster == "" || h.missed > 0 {
			missed[h.subject] = max(missed[h.subject], h.missed)
		}
	}
	missed[self()] = m.lag()
	m.mu.Unlock()
	for s, n := range missed {
		to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(n), s.Cluster, s.Controller, s.Module)
	}
}
