// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/telemetry"

	"github.com/prometheus/client_golang/prometheus"
)

// Forget deletes every series of a remote and no other, however many labels a series has. A remote that comes back begins at zero.
func TestMetrics_Forget(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(prometheus.NewRegistry(), false)
	count := func(cluster string) {
		m.ObserveProbe(cluster, "TimedOut", 0)
		m.CountAppFailure(cluster, "StartFailed")
		m.CountReconcile(cluster, "dns", "success")
		m.CountReconcile(cluster, "dns", "error")
		m.CountPanic(cluster, "")
		m.CountDeletes(cluster, "dns", "Owner", 3)
		m.CountHeldDelete(cluster, "dns", "Limit")
		m.Traffic(cluster).ByClass[2].Inc()
	}
	count("stays")
	stays := seriesOf(t, m)
	count("gone")
	m.Forget("gone")
	m.Forget("gone")
	m.Forget("unknown")
	testkit.Equal(t, seriesOf(t, m), stays, "series after the remote is forgotten")
	count("gone")
	for name, value := range seriesOf(t, m) {
		if again := strings.Replace(name, `"stays"`, `"gone"`, 1); seriesOf(t, m)[again] != value {
			t.Errorf("%s is %v, want %v: a remote that is back begins at zero", again, seriesOf(t, m)[again], value)
		}
	}
}

// seriesOf returns the values of the series of remotes by their names and labels.
func seriesOf(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	at := prometheus.NewPedanticRegistry()
	must(t, at.Register(c))
	families, err := at.Gather()
	must(t, err)
	all := map[string]float64{}
	for _, family := range families {
		for _, series := range family.Metric {
			name := family.GetName()
			for _, label := range series.Label {
				name += fmt.Sprintf(" %s=%q", label.GetName(), label.GetValue())
			}
			if strings.Contains(name, " cluster=") {
				all[name] = series.GetCounter().GetValue()
			}
		}
	}
	return all
}

// Aggregated metrics, which are for thousands of remotes, have no series of a single remote.
func TestMetrics_Aggregated(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(prometheus.NewRegistry(), true)
	for _, name := range []string{"one", "two"} {
		m.CountReconcile(name, "dns", "success")
	}
	for name, value := range seriesOf(t, m) {
		if !strings.Contains(name, ` cluster=""`) || strings.Contains(name, "reconcile") && value != 2 {
			t.Errorf("%s is %v, want series of all remotes together", name, value)
		}
	}
}

// Remotes count and are forgotten at the same time.
func TestMetrics_ForgetAtOnce(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(prometheus.NewRegistry(), false)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprintf("remote-%d", i%4)
			for range 200 {
				m.CountReconcile(name, "dns", "success")
				m.Forget(name)
			}
		})
	}
	all.Wait()
	for i := range 4 {
		m.Forget(fmt.Sprintf("remote-%d", i))
	}
	if left := seriesOf(t, m); len(left) != 0 {
		t.Errorf("the series %v are left, want none", left)
	}
}

// BenchmarkForget deletes the series of one of many remotes.
func BenchmarkForget(b *testing.B) {
	for _, remotes := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("remotes=%d", remotes), func(b *testing.B) {
			m := telemetry.NewMetrics(prometheus.NewRegistry(), false)
			for i := range remotes {
				m.Traffic(fmt.Sprintf("remote-%d", i))
			}
			for b.Loop() {
				m.Forget("remote-7")
				m.Traffic("remote-7")
			}
		})
	}
}
