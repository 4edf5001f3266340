// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
)

// hanging is a collector that hangs until the test releases it.
type hanging struct {
	prometheus.Collector
	describing, collecting chan struct{} // closed to release it; nil for not hanging
}

func (h hanging) Describe(to chan<- *prometheus.Desc) {
	if h.describing != nil {
		<-h.describing
	}
	h.Collector.Describe(to)
}

func (h hanging) Collect(to chan<- prometheus.Metric) {
	if h.collecting != nil {
		<-h.collecting
	}
	h.Collector.Collect(to)
}

func newGauge(name string) prometheus.Collector {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "A test."})
}

// A metric that panics or hangs in a scrape affects no other metric.
func TestCollector_MetricsThatCallTheModule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := prometheus.NewRegistry()
		all.MustRegister(newGauge("other"))
		app := &App{Metrics: telemetry.NewMetrics(prometheus.NewRegistry(), false), Context: t.Context()}
		m := &registerer{Registerer: all, guard: NewContainer(app, "", logr.Discard())}
		letGo := make(chan struct{})
		function := func(name string, f func() float64) {
			must(t, m.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: "A test."}, f)))
		}
		function("fine", func() float64 { return 42 })
		function("panics", func() float64 { panic("boom") })
		function("hangs", func() float64 { <-letGo; return 1 })
		got, err := all.Gather()
		if err != nil || len(got) != 2 || got[0].GetName() != "fine" || got[0].Metric[0].GetGauge().GetValue() != 42 {
			t.Errorf("got metrics %v and error %v, want the metrics fine and other", got, err)
		}
		close(letGo)
		synctest.Wait()
	})
}

// A module's collector that hangs affects its own metrics only.
func TestCollector_Hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := prometheus.NewRegistry()
		all.MustRegister(newGauge("other"))
		m := &registerer{Registerer: all, guard: NewContainer(nil, "", logr.Discard())}
		letGo := make(chan struct{})

		if err := m.Register(hanging{newGauge("never"), letGo, nil}); err == nil {
			t.Error("collector that does not describe itself is registered")
		}
		must(t, m.Register(hanging{newGauge("slow"), nil, letGo}))
		const scrapes = 2 * collectorCalls
		began := time.Now()
		for range scrapes {
			if got, err := all.Gather(); err != nil || len(got) != 1 {
				t.Fatalf("got %d metrics and error %v, want the other metric only", len(got), err)
			}
		}
		if took, want := time.Since(began), collectorCalls*collectorPatience; took != want {
			t.Errorf("%d scrapes took %s, want %s: a scrape must not wait for the callback", scrapes, took, want)
		}
		close(letGo)
		synctest.Wait()
		if got, err := all.Gather(); err != nil || len(got) != 2 {
			t.Errorf("got %d metrics and error %v, want both after the callback has returned", len(got), err)
		}
	})
}
