// SPDX-License-Identifier: Apache-2.0

package deletions_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/deletes"
	"github.com/clusterfx/clusterfx/registry/internal/deletions"
	"github.com/clusterfx/clusterfx/registry/internal/deletions/ledger"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

func newGuard(limits deletes.Limits) *deletions.Guard {
	return deletions.New(deletions.Options{
		Store:   deletions.MemoryStore{},
		Place:   func(state.ClusterName) (types.UID, int64, error) { return "", 0, nil },
		Module:  func(context.Context) string { return "bench" },
		Silent:  func(state.ClusterName) bool { return false },
		Blind:   func(context.Context) string { return "" },
		Limits:  func(string, map[string]string) deletes.Limits { return limits },
		Counted: func(string, state.ClusterName, deletes.EvidenceKind, int) {},
		Refused: func(string, state.ClusterName, deletes.Reason) {},
		Began:   func(ledger.Held, bool) {}, Ended: func(ledger.Held) {},
		Changed: func(state.ClusterName) {}, Now: time.Now,
	})
}

// pair is two clients of the same API server. The requests of one of them pass a Guard that holds nothing.
type pair struct {
	guarded, plain client.Client
}

func newPair(b *testing.B, config *rest.Config) pair {
	b.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	make := func(config *rest.Config) client.Client {
		httpClient, err := rest.HTTPClientFor(config)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(httpClient.CloseIdleConnections)
		c, err := client.New(config, client.Options{HTTPClient: httpClient, Mapper: mapper})
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	guard := newGuard(deletes.Limits{PerTarget: 1 << 30, PerFleet: 1 << 30})
	guarded := rest.CopyConfig(config)
	guarded.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
			return guard.RoundTrip(deletions.Target{Name: "edge"}, r, next.RoundTrip)
		})
	})
	return pair{guarded: make(guarded), plain: make(config)}
}

// compare calls do with both clients, in turns, and reports how much longer it takes with the Guard.
func (p pair) compare(b *testing.B, do func(c client.Client, i int) error) {
	b.Helper()
	var took [2][]time.Duration
	b.ResetTimer()
	for i := range b.N {
		for turn := range 2 {
			which := (i + turn) % 2
			c := []client.Client{p.guarded, p.plain}[which]
			began := time.Now()
			if err := do(c, 2*i+which); err != nil {
				b.Fatal(err)
			}
			took[which] = append(took[which], time.Since(began))
		}
	}
	b.StopTimer()
	var median, mean [2]float64
	for which, all := range took {
		for _, d := range all {
			mean[which] += float64(d) / float64(len(all))
		}
		slices.Sort(all)
		median[which] = float64(all[len(all)/2])
	}
	b.ReportMetric(median[0]/median[1], "median-ratio")
	b.ReportMetric(mean[0]/mean[1], "mean-ratio")
	b.ReportMetric(median[1]/1000, "plain-µs")
	b.ReportMetric((median[0]-median[1])/1000, "guard-µs")
	b.ReportMetric(0, "ns/op")
}

func object(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("bench-%d", i)}}
}

// BenchmarkGuard_APIServer shows what the Guard costs at a real API server. Its goal is at most 3 percent, with -benchtime=10000x.
func BenchmarkGuard_APIServer(b *testing.B) {
	config := fleettest.Cluster(b, "bench").Config()
	b.Run("delete", func(b *testing.B) {
		p := newPair(b, config)
		var creating errgroup.Group
		creating.SetLimit(8)
		for i := range 2 * b.N {
			creating.Go(func() error { return client.IgnoreAlreadyExists(p.plain.Create(b.Context(), object(i))) })
		}
		if err := creating.Wait(); err != nil {
			b.Fatal(err)
		}
		p.compare(b, func(c client.Client, i int) error { return c.Delete(b.Context(), object(i)) })
	})
	b.Run("get", func(b *testing.B) {
		p := newPair(b, config)
		if err := client.IgnoreAlreadyExists(p.plain.Create(b.Context(), object(0))); err != nil {
			b.Fatal(err)
		}
		p.compare(b, func(c client.Client, _ int) error {
			return c.Get(b.Context(), client.ObjectKeyFromObject(object(0)), object(0))
		})
	})
}

// BenchmarkGuard_Bare shows what the Guard costs beside a server that does nothing.
func BenchmarkGuard_Bare(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`))
	}))
	b.Cleanup(server.Close)
	p := newPair(b, &rest.Config{Host: server.URL, QPS: -1})
	b.Run("delete", func(b *testing.B) {
		p.compare(b, func(c client.Client, i int) error { return c.Delete(b.Context(), object(i)) })
	})
	b.Run("get", func(b *testing.B) {
		p.compare(b, func(c client.Client, _ int) error {
			return c.Get(b.Context(), client.ObjectKeyFromObject(object(0)), object(0))
		})
	})
}
