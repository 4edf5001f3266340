// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// remoteCounters are counters whose first label is the remote. They know the series of each remote: prometheus looks at the series of
// all remotes to delete those of one, which takes minutes of processor time when thousands of remotes end at the same time.
type remoteCounters struct {
	*prometheus.CounterVec
	labels int

	mu     sync.RWMutex // protects the field below
	series map[string]map[values]struct{}
}

// values are the values of the labels of a series; those that it does not have are empty.
type values [3]string

func newRemoteCounters(o prometheus.CounterOpts, labels ...string) *remoteCounters {
	labels = append([]string{ClusterLabel}, labels...)
	return &remoteCounters{
		CounterVec: prometheus.NewCounterVec(o, labels), labels: len(labels), series: map[string]map[values]struct{}{},
	}
}

// of returns the counter of a remote with the values of the other labels.
func (c *remoteCounters) of(cluster string, others ...string) prometheus.Counter {
	v := values{cluster}
	copy(v[1:], others)
	c.note(v)
	return c.WithLabelValues(v[:c.labels]...)
}

func (c *remoteCounters) note(v values) {
	c.mu.RLock()
	_, known := c.series[v[0]][v]
	c.mu.RUnlock()
	if known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.series[v[0]] == nil {
		c.series[v[0]] = map[values]struct{}{}
	}
	c.series[v[0]][v] = struct{}{}
}

// forget deletes the series of a remote.
func (c *remoteCounters) forget(cluster string) {
	c.mu.Lock()
	all := c.series[cluster]
	delete(c.series, cluster)
	c.mu.Unlock()
	for v := range all {
		c.DeleteLabelValues(v[:c.labels]...)
	}
}
