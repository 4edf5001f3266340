// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Forget deletes every series of a remote and no other, however many labels a series has. A remote that comes back begins at zero.
func TestMetrics_Forget(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry(), false)
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
	count("gone")
	count("stays")
	m.Forget("gone")
	m.Forget("gone")
	m.Forget("unknown")
	for _, counters := range m.all() {
		if remotes, ok := counters.(*remoteCounters); ok && testutil.CollectAndCount(remotes) == 0 {
			t.Error("the series of the other remote are gone")
		}
	}
	if text := textOf(t, m); strings.Contains(text, `cluster="gone"`) {
		t.Errorf("series of the remote are left:\n%s", text)
	}
	count("gone")
	if got := testutil.ToFloat64(m.reconciles.of("gone", "dns", "error")); got != 1 {
		t.Errorf("the counter of a remote that is back is %v, want 1", got)
	}
	if got := testutil.ToFloat64(m.reconciles.of("stays", "dns", "error")); got != 1 {
		t.Errorf("the counter of the other remote is %v, want 1", got)
	}
}

// textOf returns the labels of all series.
func textOf(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	at := prometheus.NewPedanticRegistry()
	if err := at.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := at.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, family := range families {
		for _, series := range family.Metric {
			fmt.Fprint(&all, family.GetName())
			for _, label := range series.Label {
				fmt.Fprintf(&all, " %s=%q", label.GetName(), label.GetValue())
			}
			fmt.Fprintln(&all)
		}
	}
	return all.String()
}

// Remotes count and are forgotten at the same time.
func TestMetrics_ForgetAtOnce(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry(), false)
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
	if n := testutil.CollectAndCount(m.reconciles); n != 0 {
		t.Errorf("%d series are left, want 0", n)
	}
}

// BenchmarkForget deletes the series of one of many remotes.
func BenchmarkForget(b *testing.B) {
	for _, remotes := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("remotes=%d", remotes), func(b *testing.B) {
			m := NewMetrics(prometheus.NewRegistry(), false)
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
