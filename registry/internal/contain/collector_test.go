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

// hanging is a collector that hangs until it is let go.
type hanging struct {
	prometheus.Collector
	describing, collecting chan struct{} // closed to let it go; nil for not hanging
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

// A metric that panics or hangs when it is written costs itself, and nobody else.
func TestCollector_MetricsThatCallTheModule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := prometheus.NewRegistry()
		all.MustRegister(newGauge("other"))
		app := &App{Metrics: telemetry.NewMetrics(prometheus.NewRegistry(), false), Context: t.Context()}
		m := &registerer{Registerer: all, guard: NewGuard(app, "", logr.Discard())}
		letGo := make(chan struct{})
		function := func(name string, f func() float64) {
			if err := m.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: "A test."}, f)); err != nil {
				t.Fatalf("Register: %v", err)
			}
		}
		function("fine", func() float64 { return 42 })
		function("panics", func() float64 { panic("boom") })
		function("hangs", func() float64 { <-letGo; return 1 })
		got, err := all.Gather()
		if err != nil || len(got) != 2 || got[0].GetName() != "fine" || got[0].Metric[0].GetGauge().GetValue() != 42 {
			t.Errorf("%v, %v; want those that are fine", got, err)
		}
		close(letGo)
		synctest.Wait()
	})
}

// A module's collector that hangs costs its own metrics, and nobody else's.
func TestCollector_Hangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := prometheus.NewRegistry()
		all.MustRegister(newGauge("other"))
		m := &registerer{Registerer: all, guard: NewGuard(nil, "", logr.Discard())}
		letGo := make(chan struct{})

		if err := m.Register(hanging{newGauge("never"), letGo, nil}); err == nil {
			t.Error("a collector that does not describe itself was registered")
		}
		if err := m.Register(hanging{newGauge("slow"), nil, letGo}); err != nil {
			t.Fatalf("Register: %v", err)
		}
		const scrapes = 2 * collectorCalls
		began := time.Now()
		for range scrapes {
			if got, err := all.Gather(); err != nil || len(got) != 1 {
				t.Fatalf("%d metrics, %v; want the other one", len(got), err)
			}
		}
		if took, want := time.Since(began), collectorCalls*collectorPatience; took != want {
			t.Errorf("%d scrapes took %s, want %s: it must not wait for the callback", scrapes, took, want)
		}
		close(letGo)
		synctest.Wait()
		if got, err := all.Gather(); err != nil || len(got) != 2 {
			t.Errorf("%d metrics, %v; want both when it has returned", len(got), err)
		}
	})
}
