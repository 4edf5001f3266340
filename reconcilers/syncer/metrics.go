// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type metrics struct {
	registerer prometheus.Registerer
	pair       prometheus.Labels
	writes     *prometheus.CounterVec
	conflicts  *prometheus.CounterVec
	fights     *prometheus.CounterVec
	copies     []prometheus.Collector
}

const kindLabel = "kind"

func newMetrics(o PairOptions) (*metrics, error) {
	labels := prometheus.Labels{"pair": o.Name}
	counter := func(name, help string, by ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, append(by, kindLabel))
	}
	m := &metrics{
		registerer: o.Metrics, pair: labels,
		writes: counter("clusterfx_sync_writes_total", "Requests of a pair that change objects, by direction (down: copies, "+
			"up: originals), verb and result (ok, conflict or error).", "direction", "verb", "result"),
		conflicts: counter("clusterfx_sync_name_conflicts_total", "Times that the name of a copy belonged to another object."),
		fights:    counter("clusterfx_sync_contended_total", "Writes of a pair that were put off because another client changes the same field."),
	}
	if o.Metrics == nil {
		return m, nil
	}
	return m, errors.Join(o.Metrics.Register(m.writes), o.Metrics.Register(m.conflicts), o.Metrics.Register(m.fights))
}

// own exports the number of copies of a kind; only the first syncer of a kind is counted.
func (m *metrics) own(kind string, count func() int) {
	if m.registerer == nil {
		return
	}
	labels := prometheus.Labels{kindLabel: kind, "pair": m.pair["pair"]}
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clusterfx_sync_copies", Help: "Copies that a pair has made and that exist.", ConstLabels: labels,
	}, func() float64 { return float64(count()) })
	if m.registerer.Register(gauge) == nil {
		m.copies = append(m.copies, gauge)
	}
}

func (m *metrics) close() {
	if m.registerer == nil {
		return
	}
	for _, one := range append(m.copies, m.writes, m.conflicts, m.fights) {
		m.registerer.Unregister(one)
	}
}

func (m *metrics) write(kind, direction string, v verb, err error) {
	result := "ok"
	switch {
	case apierrors.IsConflict(err):
		result = "conflict"
	case err != nil:
		result = "error"
	}
	m.writes.WithLabelValues(direction, string(v), result, kind).Inc()
}

func (m *metrics) conflict(kind string)  { m.conflicts.WithLabelValues(kind).Inc() }
func (m *metrics) contended(kind string) { m.fights.WithLabelValues(kind).Inc() }
