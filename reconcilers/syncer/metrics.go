// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Metrics are those of many pairs that come and go.
type Metrics struct {
	writes, conflicts, fights *prometheus.CounterVec

	mu    sync.Mutex // protects the fields
	pairs map[string]int
	own   map[ownKey]*func() int
}

type ownKey struct{ pair, kind string }

const (
	pairLabel = "pair"
	kindLabel = "kind"
)

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{pairs: map[string]int{}, own: map[ownKey]*func() int{}}
	m.writes, m.conflicts, m.fights = counters(pairLabel)
	return m, errors.Join(r.Register(m.writes), r.Register(m.conflicts), r.Register(m.fights), r.Register(m))
}

func counters(by ...string) (writes, conflicts, fights *prometheus.CounterVec) {
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(append(more, kindLabel), by...))
	}
	return counter("clusterfx_sync_writes_total", "Requests of a pair that change objects, by direction (down: copies, "+
			"up: originals), verb and result (ok, conflict or error).", "direction", "verb", "result"),
		counter("clusterfx_sync_name_conflicts_total", "Times that the name of a copy belonged to another object."),
		counter("clusterfx_sync_contended_total", "Writes of a pair that were put off because another client changes the same field.")
}

const copiesName, copiesHelp = "clusterfx_sync_copies", "Copies that a pair has made and that exist."

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- copiesDesc() }

func copiesDesc() *prometheus.Desc {
	return prometheus.NewDesc(copiesName, copiesHelp, []string{pairLabel, kindLabel}, nil)
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(values chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	desc := copiesDesc()
	for of, count := range m.own {
		values <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64((*count)()), of.pair, of.kind)
	}
}

// metrics are those of one pair.
type metrics struct {
	name                      string
	registerer                prometheus.Registerer // may be nil
	shared                    *Metrics              // may be nil
	writes, conflicts, fights *prometheus.CounterVec
	mine                      map[ownKey]*func() int // in shared
}

func newMetrics(o PairOptions) (*metrics, error) {
	m := &metrics{name: o.Name, shared: o.Shared, mine: map[ownKey]*func() int{}}
	if o.Shared != nil {
		pair := prometheus.Labels{pairLabel: o.Name}
		m.writes, m.conflicts, m.fights = o.Shared.writes.MustCurryWith(pair), o.Shared.conflicts.MustCurryWith(pair), o.Shared.fights.MustCurryWith(pair)
		o.Shared.mu.Lock()
		o.Shared.pairs[o.Name]++
		o.Shared.mu.Unlock()
		return m, nil
	}
	m.writes, m.conflicts, m.fights = counters()
	if o.Metrics == nil {
		return m, nil
	}
	m.registerer = prometheus.WrapRegistererWith(prometheus.Labels{pairLabel: o.Name}, o.Metrics)
	return m, errors.Join(m.registerer.Register(m.writes), m.registerer.Register(m.conflicts), m.registerer.Register(m.fights))
}

// own exports the number of copies of a kind; only the first syncer of a kind is counted.
func (m *metrics) own(kind string, count func() int) {
	switch {
	case m.shared != nil:
		m.shared.mu.Lock()
		defer m.shared.mu.Unlock()
		of := ownKey{m.name, kind}
		m.mine[of], m.shared.own[of] = &count, &count
	case m.registerer != nil:
		_ = m.registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: copiesName, Help: copiesHelp, ConstLabels: prometheus.Labels{kindLabel: kind},
		}, func() float64 { return float64(count()) }))
	}
}

// close leaves the metrics of a later pair of the same name.
func (m *metrics) close() {
	s := m.shared
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, count := range m.mine {
		if s.own[of] == count {
			delete(s.own, of)
		}
	}
	if s.pairs[m.name]--; s.pairs[m.name] > 0 {
		return
	}
	delete(s.pairs, m.name)
	for _, one := range []*prometheus.CounterVec{s.writes, s.conflicts, s.fights} {
		one.DeletePartialMatch(prometheus.Labels{pairLabel: m.name})
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
	m.writes.With(prometheus.Labels{"direction": direction, "verb": string(v), "result": result, kindLabel: kind}).Inc()
}

func (m *metrics) conflict(kind string)  { m.conflicts.With(prometheus.Labels{kindLabel: kind}).Inc() }
func (m *metrics) contended(kind string) { m.fights.With(prometheus.Labels{kindLabel: kind}).Inc() }
