// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// big is a large collector, whose end the test can see.
type big struct {
	prometheus.Collector
	ballast []byte
}

// A hub drops its references to unregistered collectors, so that they can be freed: the collectors of an app refer to all of the app.
func TestTermMetrics_LetsGo(t *testing.T) {
	t.Parallel()
	all := prometheus.NewRegistry()
	hub := newHubMetrics(all)
	gone := make(chan bool, 1)
	// As in an app: with a label, and with a new wrapper for each call.
	app := func() prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"cluster": "one"}, hub)
	}
	func() {
		c := &big{prometheus.NewGauge(prometheus.GaugeOpts{Name: "big", Help: "A test."}), make([]byte, 1<<20)}
		runtime.AddCleanup(c, func(to chan bool) { to <- true }, gone)
		must(t, app().Register(c))
		must(t, hub.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "other", Help: "A test."})))
		if !app().Unregister(c) {
			t.Error("the collector is not unregistered")
		}
		if families, err := all.Gather(); err != nil || len(families) != 1 {
			t.Errorf("%d metrics, %v; want 1", len(families), err)
		}
		runtime.KeepAlive(c.ballast)
	}()
	testkit.Until(t, "the collector is freed", func() bool {
		runtime.GC()
		return len(gone) > 0
	})
	hub.end()
	if families, err := all.Gather(); err != nil || len(families) != 0 {
		t.Errorf("%d metrics after the hub, %v; want 0", len(families), err)
	}
	if err := hub.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "late", Help: "A test."})); err == nil {
		t.Error("a collector can be registered after the hub")
	}
}
