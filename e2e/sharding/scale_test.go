// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
)

// The size of the fleet in BenchmarkScale.
var (
	scaleRemotes  = flag.Int("remotes", 200, "BenchmarkScale: the number of remotes")
	scaleReplicas = flag.Int("replicas", 4, "BenchmarkScale: the number of replicas of the hub")
	scaleServers  = flag.Int("servers", 3, "BenchmarkScale: the number of API servers")
)

const (
	// scalePatience is how long the benchmark waits for a state.
	scalePatience = 30 * time.Minute
	// restTime is how long the requests of a fleet at rest are counted.
	restTime = time.Minute
)

// reader is a module that reads the ConfigMaps of its remote.
func reader() registry.Module {
	return registry.NewModule("reader", registry.ModuleOptions{Remote: fx.Invoke(func(p registry.Remote) error {
		return ctrl.NewControllerManagedBy(p.Manager).Named("reader").For(&corev1.ConfigMap{}).
			Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }))
	})})
}

// BenchmarkScale shows what a fleet costs that several replicas of a hub share: the time until all Clusters are Ready, the memory
// and goroutines of each replica, the requests to the hub's API server, and the time after which the Clusters of a replica that
// is killed are Ready again. All processes share the machine with the API servers.
func BenchmarkScale(b *testing.B) {
	for b.Loop() {
		measureScale(b)
	}
}

func measureScale(b *testing.B) {
	b.Helper()
	s := newStageOf(b, stageOptions{clusters: *scaleRemotes, servers: *scaleServers})
	s.reads = true
	for _, one := range s.remotes {
		s.createSmall(one.Config())
	}
	c := s.chronicle()
	before, began := s.requests(), time.Now()
	var replicas []string
	for i := range *scaleReplicas {
		replicas = append(replicas, fmt.Sprintf("r%d", i))
		s.start(replicas[i])
	}
	noted := began
	s.within(func() error {
		n := c.ready()
		if time.Since(noted) > time.Minute {
			noted = time.Now()
			b.Logf("%d Clusters are Ready after %s", n, time.Since(began).Round(time.Second))
		}
		return errorUnless(n == len(s.names), "%d of %d Clusters are Ready", n, len(s.names))
	})
	took := time.Since(began)
	started := s.requests() - before
	b.Logf("%d Clusters, %d replicas: all are Ready after %s; %.1f requests to the hub's API server for each Cluster",
		len(s.names), len(replicas), took.Round(100*time.Millisecond), started/float64(len(s.names)))
	b.ReportMetric(took.Seconds(), "s/start")
	s.reportRest(b, replicas)
	s.reportKill(b, c, replicas)
}

// reportRest measures the fleet while nothing happens.
func (s *stage) reportRest(b *testing.B, replicas []string) {
	b.Helper()
	select {
	case <-time.After(restTime / 2): // The writes of the start are over.
	case <-b.Context().Done():
	}
	before, began := s.requests(), time.Now()
	select {
	case <-time.After(restTime):
	case <-b.Context().Done():
	}
	rate := (s.requests() - before) / time.Since(began).Seconds()
	b.Logf("at rest: %.1f requests per second to the hub's API server", rate)
	b.ReportMetric(rate, "requests/s")
	for _, name := range replicas {
		memory, err := s.replicas[name].series("process_resident_memory_bytes")
		must(b, err)
		routines, err := s.replicas[name].series("go_goroutines")
		must(b, err)
		b.Logf("%s: %d Clusters, %.0f MiB resident, %.0f goroutines", name, len(s.runBy(name)), sum(memory)/(1<<20), sum(routines))
	}
}

func (s *stage) reportKill(b *testing.B, c *chronicle, replicas []string) {
	b.Helper()
	victim := s.largest(replicas...)
	lost := s.runBy(victim)
	killed := time.Now()
	s.replicas[victim].kill()
	delete(s.replicas, victim)
	var took []time.Duration
	s.within(func() error {
		took = c.regained(lost, victim, killed)
		return errorUnless(len(took) == len(lost), "%d of %d Clusters are Ready again", len(took), len(lost))
	})
	slices.Sort(took)
	if len(took) == 0 {
		return
	}
	b.Logf("%s was killed: its %d Clusters were Ready with another replica after %s (median), %s (last)",
		victim, len(lost), took[len(took)/2].Round(100*time.Millisecond), took[len(took)-1].Round(100*time.Millisecond))
	b.ReportMetric(took[len(took)-1].Seconds(), "s/regained")
}

// within waits until check returns nil.
func (s *stage) within(check func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), scalePatience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for err := check(); err != nil; err = check() {
		select {
		case <-again.C:
		case <-ctx.Done():
			s.t.Fatal(err)
		}
	}
}

func (s *stage) createSmall(config *rest.Config) {
	s.t.Helper()
	must(s.t, fleettest.ClientFor(s.t, config).Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "small"}, Data: map[string]string{"key": "value"},
	}))
}

// requests returns how many requests the hub's API server has handled, its own included.
func (s *stage) requests() float64 {
	s.t.Helper()
	transport, err := rest.HTTPClientFor(s.hub.Config())
	must(s.t, err)
	defer transport.CloseIdleConnections()
	all, err := seriesFrom(s.t.Context(), transport, s.hub.Config().Host+"/metrics", "apiserver_request_total")
	must(s.t, err)
	return sum(all)
}

// sum returns the sum of all series of a counter or gauge.
func sum(all []*dto.Metric) float64 {
	n := 0.0
	for _, m := range all {
		n += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return n
}

// ready returns how many Clusters are Ready.
func (c *chronicle) ready() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for all := range maps.Values(c.changes) {
		if all[len(all)-1].status == metav1.ConditionTrue {
			n++
		}
	}
	return n
}

// regained returns, for each of these Clusters that is Ready with another runner now, when it became so.
func (c *chronicle) regained(lost []hubv1.Cluster, before string, since time.Time) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var took []time.Duration
	for i := range lost {
		all := c.changes[lost[i].Name]
		if last := all[len(all)-1]; last.status == metav1.ConditionTrue && last.runner != before {
			took = append(took, last.at.Sub(since))
		}
	}
	return took
}
