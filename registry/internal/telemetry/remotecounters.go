// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// remoteCounters know the series of each remote: prometheus looks at all series to delete those of one, 2 ms for each
// of 2 500 remotes, and all may end at the same time.
type remoteCounters struct {
	*prometheus.CounterVec
	labels int

	mu     sync.Mutex // protects the field below, which has every series that exists
	series map[string]map[values]struct{}
}

// The labels that a series does not have are empty.
type values [3]string

func newRemoteCounters(o prometheus.CounterOpts, labels ...string) *remoteCounters {
	labels = append([]string{ClusterLabel}, labels...)
	return &remoteCounters{
		CounterVec: prometheus.NewCounterVec(o, labels), labels: len(labels), series: map[string]map[values]struct{}{},
	}
}

func (c *remoteCounters) of(cluster string, others ...string) prometheus.Counter {
	v := values{cluster}
	copy(v[1:], others)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.series[v[0]] == nil {
		c.series[v[0]] = map[values]struct{}{}
	}
	c.series[v[0]][v] = struct{}{}
	return c.WithLabelValues(v[:c.labels]...)
}

func (c *remoteCounters) forget(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for v := range c.series[cluster] {
		c.DeleteLabelValues(v[:c.labels]...)
	}
	delete(c.series, cluster)
}
