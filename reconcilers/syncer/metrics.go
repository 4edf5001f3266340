// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	pairLabel = "pair"
	kindLabel = "kind"
)

// collector has the metrics of all pairs of a Registerer, which come and go.
type collector struct {
	*prometheus.Registry

	writes, conflicts, fights *prometheus.CounterVec
	copies                    *prometheus.GaugeVec

	mu    sync.Mutex // protects the field
	pairs map[string]int
}

// collectorOf registers the collector of a Registerer, unless it has one. It may be nil.
func collectorOf(r prometheus.Registerer) (*collector, error) {
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(more, kindLabel, pairLabel))
	}
	c := &collector{
		Registry: prometheus.NewRegistry(), pairs: map[string]int{},
		writes: counter("clusterfx_sync_writes_total", "Requests of a pair that change objects, by direction (down: copies, "+
			"up: originals), verb and result (ok, conflict or error).", "direction", "verb", "result"),
		conflicts: counter("clusterfx_sync_name_conflicts_total", "Times that the name of a copy belonged to another object."),
		fights:    counter("clusterfx_sync_contended_total", "Writes of a pair that were put off because another client changes the same field."),
		copies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clusterfx_sync_copies", Help: "Copies that a pair has made and that exist.",
		}, []string{kindLabel, pairLabel}),
	}
	c.MustRegister(c.writes, c.conflicts, c.fights, c.copies)
	if r == nil {
		return c, nil
	}
	err := r.Register(c)
	if before, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if known, ok := before.ExistingCollector.(*collector); ok {
			return known, nil
		}
	}
	return c, err
}

// metrics are those of one pair.
type metrics struct {
	all  *collector
	pair string
}

func newMetrics(o PairOptions) (*metrics, error) {
	all, err := collectorOf(o.Metrics)
	if err != nil {
		return nil, err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.pairs[o.Name]++
	return &metrics{all: all, pair: o.Name}, nil
}

// close leaves the metrics of a later pair of the same name.
func (m *metrics) close() {
	c := m.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pairs[m.pair]--; c.pairs[m.pair] > 0 {
		return
	}
	delete(c.pairs, m.pair)
	for _, one := range []*prometheus.MetricVec{c.writes.MetricVec, c.conflicts.MetricVec, c.fights.MetricVec, c.copies.MetricVec} {
		one.DeletePartialMatch(prometheus.Labels{pairLabel: m.pair})
	}
}

// copies is exported as the number of copies of a kind.
func (m *metrics) copies(kind string) prometheus.Gauge {
	return m.all.copies.WithLabelValues(kind, m.pair)
}

func (m *metrics) write(kind, direction string, v verb, err error) {
	result := "ok"
	switch {
	case apierrors.IsConflict(err):
		result = "conflict"
	case err != nil:
		result = "error"
	}
	m.all.writes.WithLabelValues(direction, string(v), result, kind, m.pair).Inc()
}

func (m *metrics) conflict(kind string)  { m.all.conflicts.WithLabelValues(kind, m.pair).Inc() }
func (m *metrics) contended(kind string) { m.all.fights.WithLabelValues(kind, m.pair).Inc() }
