// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Results of attempts to connect.
const (
	accepted = "accepted"
	failed   = "failed"
	limited  = "limited"
	unknown  = "unknown_key"
)

type counts struct {
	attempts *prometheus.CounterVec
	agents   *prometheus.Desc
}

func newCounts() counts {
	c := counts{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterfx_tunnel_attempts_total",
			Help: "Attempts of agents to connect, by result: accepted, failed, limited (too many from an address), or unknown_key.",
		}, []string{"result"}),
		agents: prometheus.NewDesc("clusterfx_tunnel_agents", "Agents that are connected to this replica.", nil, nil),
	}
	for _, result := range []string{accepted, failed, limited, unknown} {
		c.attempts.WithLabelValues(result)
	}
	return c
}

func (c counts) add(result string) { c.attempts.WithLabelValues(result).Inc() }

// Describe is of a prometheus.Collector.
func (h *Hub) Describe(out chan<- *prometheus.Desc) {
	h.counts.attempts.Describe(out)
	out <- h.counts.agents
}

// Collect is of a prometheus.Collector.
func (h *Hub) Collect(out chan<- prometheus.Metric) {
	h.counts.attempts.Collect(out)
	out <- prometheus.MustNewConstMetric(h.counts.agents, prometheus.GaugeValue, float64(len(h.Remotes())))
}
