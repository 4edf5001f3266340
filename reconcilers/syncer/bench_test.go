// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// The ways of copying that the benchmarks compare.
const (
	ofPair         = "pair"
	ofPairHeld     = "pair+finalizer"
	ofBaseline     = "baseline"
	ofBaselineHeld = "baseline+finalizer"
)

// benchSize returns a size that an environment variable can change.
func benchSize(name string, size int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return size
}

// unlimited returns the configuration of a cluster without rate limits, with protobuf.
func unlimited(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.QPS, c.ContentType = -1, "application/vnd.kubernetes.protobuf"
	return c
}

// counted is unlimited, with the writes counted.
func (b *bench) counted(c *rest.Config) *rest.Config {
	c = unlimited(c)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &writes{count: &b.sent, next: next} })
	return c
}

// quick returns a bench with unlimited clients and new namespaces.
func quick(tb testing.TB) *bench {
	tb.Helper()
	clusters := fleettest.Clusters(tb, "up", "down")
	b := &bench{tb: tb}
	for i, c := range []*client.Client{&b.up, &b.down} {
		*c = fleettest.ClientFor(tb, unlimited(clusters[i].Config()))
		ns := fleettest.Namespace(tb, *c, "bench-")
		if i == 0 {
			b.upNS = ns
		} else {
			b.downNS = ns
		}
	}
	return b
}

// start starts a pair or the baseline for the namespaces of the bench, with caches of these alone.
func (b *bench) start(tb testing.TB, way string) (stop func()) {
	tb.Helper()
	clusters := fleettest.Clusters(tb, "up", "down")
	only := func(namespace string) cache.Options {
		return cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields()}
	}
	mgr, err := ctrl.NewManager(b.counted(clusters[0].Config()), ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Cache: only(b.upNS),
	})
	must(tb, err)
	down, err := cluster.New(b.counted(clusters[1].Config()), func(o *cluster.Options) { o.Cache = only(b.downNS) })
	must(tb, err)
	must(tb, errors.Join(mgr.Add(down), b.addTo(mgr, down, way)))
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		testkit.NoError(tb, <-done)
	}
}

func (b *bench) addTo(mgr ctrl.Manager, down cluster.Cluster, way string) error {
	if strings.HasPrefix(way, ofBaseline) {
		return addBaseline(mgr, down, b, way == ofBaselineHeld)
	}
	pair, err := syncer.NewPair(syncer.PairOptions{
		Name: "pair", Manager: mgr, Upstream: syncer.InProcess(mgr), Downstream: syncer.InProcess(down),
		Identity: syncer.Identity{Tenant: "bench", TargetNamespace: b.downNS}, OneToOne: way == ofPairHeld,
	})
	if err != nil {
		return err
	}
	return syncer.Register(pair, &syncer.Copy[*corev1.ConfigMap]{Called: "configmaps"},
		syncer.NewNamespaced[*corev1.ConfigMap](pair.Identity(), syncer.TranslatorOptions{}), syncer.Options[*corev1.ConfigMap]{})
}

// fill creates originals of about 1 KB.
func (b *bench) fill(tb testing.TB, objects int) {
	tb.Helper()
	var all sync.WaitGroup
	next := make(chan int)
	for range 8 {
		all.Go(func() {
			for i := range next {
				obj := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: b.upNS, Name: fmt.Sprintf("object-%05d", i), Labels: map[string]string{"app": "bench"}},
					Data:       map[string]string{"body": strings.Repeat("x", 900), "number": strconv.Itoa(i)},
				}
				testkit.NoError(tb, b.up.Create(tb.Context(), obj))
			}
		})
	}
	for i := range objects {
		next <- i
	}
	close(next)
	all.Wait()
}

func (b *bench) watchCopies(tb testing.TB, seen func(*corev1.ConfigMap)) (stop func()) {
	tb.Helper()
	clusters := fleettest.Clusters(tb, "up", "down")
	copies, err := cache.New(unlimited(clusters[1].Config()), cache.Options{
		DefaultNamespaces: map[string]cache.Config{b.downNS: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	must(tb, err)
	informer, err := copies.GetInformer(tb.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	must(tb, err)
	note := func(obj any) {
		if c, ok := obj.(*corev1.ConfigMap); ok && c.Data["body"] != "" {
			seen(c)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) },
	}); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- copies.Start(ctx) }()
	return func() {
		cancel()
		testkit.NoError(tb, <-done)
	}
}

// BenchmarkInitial copies objects that exist, with a pair and with the baseline in turn, five times after a warm-up.
// CLUSTERFX_OBJECTS sets their number.
func BenchmarkInitial(b *testing.B) {
	objects := benchSize("CLUSTERFX_OBJECTS", 10_000)
	took, heap, sent := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for range b.N {
		for run := range 6 {
			for _, way := range []string{ofBaseline, ofPair, ofBaselineHeld, ofPairHeld} {
				seconds, kib, writes := initial(b, way, objects)
				if run > 0 {
					took[way], heap[way], sent[way] = append(took[way], seconds), append(heap[way], kib), append(sent[way], writes)
				}
			}
		}
	}
	for _, way := range []string{ofBaseline, ofPair, ofBaselineHeld, ofPairHeld} {
		b.Logf("%-18s %d objects: %s s, heap %s KiB and %.3f writes per object",
			way, objects, spread(took[way]), spread(heap[way]), median(sent[way]))
	}
	b.ReportMetric(median(took[ofPair])/median(took[ofBaseline]), "x-time")
	b.ReportMetric(median(took[ofPairHeld])/median(took[ofBaselineHeld]), "x-time-finalizers")
	b.ReportMetric(median(heap[ofPair])/median(heap[ofBaseline]), "x-heap")
}

func initial(tb testing.TB, way string, objects int) (seconds, kib, writes float64) {
	tb.Helper()
	b := quick(tb)
	b.fill(tb, objects)
	var mu sync.Mutex
	known, all := map[string]struct{}{}, make(chan struct{})
	unwatch := b.watchCopies(tb, func(c *corev1.ConfigMap) {
		mu.Lock()
		defer mu.Unlock()
		if known[c.Name] = struct{}{}; len(known) == objects {
			select {
			case <-all:
			default:
				close(all)
			}
		}
	})
	before := heapNow()
	began := time.Now()
	stop := b.start(tb, way)
	<-all
	took := time.Since(began).Seconds()
	kib = float64(heapNow()-before) / 1024 / float64(objects)
	stop()
	unwatch()
	return took, kib, float64(b.sent.Load()) / float64(objects)
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// BenchmarkEdit measures the time from the stamp in an edited original until a watch reports the copy with that stamp, at 1
// and at 100 pairs, with pairs and with the baseline in turn.
func BenchmarkEdit(b *testing.B) {
	edits := benchSize("CLUSTERFX_EDITS", 2000)
	for _, pairs := range []int{1, 100} {
		b.Run(fmt.Sprintf("pairs=%d", pairs), func(b *testing.B) {
			took := map[string][]float64{}
			for range b.N {
				for run := range 6 {
					for _, way := range []string{ofBaseline, ofPair} {
						all := edit(b, way, pairs, edits)
						if run > 0 {
							took[way] = append(took[way], all...)
						}
					}
				}
			}
			for _, way := range []string{ofBaseline, ofPair} {
				b.Logf("%-10s %3d pairs: p50 %.2f ms, p99 %.2f ms", way, pairs, percentile(took[way], 50), percentile(took[way], 99))
			}
			b.ReportMetric(percentile(took[ofPair], 50)/percentile(took[ofBaseline], 50), "x-p50")
			b.ReportMetric(percentile(took[ofPair], 99)/percentile(took[ofBaseline], 99), "x-p99")
		})
	}
}

// edit edits one object after another, each in another pair, and returns the milliseconds that each edit took.
func edit(tb testing.TB, way string, pairs, edits int) []float64 {
	tb.Helper()
	type stamped struct {
		stamp string
		at    time.Time
	}
	arrived := make(chan stamped, 16)
	benches := make([]*bench, pairs)
	var stops []func()
	for i := range benches {
		benches[i] = quick(tb)
		benches[i].fill(tb, 1)
		stops = append(stops, benches[i].watchCopies(tb, func(c *corev1.ConfigMap) {
			arrived <- stamped{c.Data["stamp"], time.Now()}
		}), benches[i].start(tb, way))
	}
	for range benches {
		<-arrived
	}
	took := make([]float64, 0, edits)
	for i := range edits {
		one := benches[i%pairs]
		now := time.Now()
		stamp := strconv.FormatInt(now.UnixNano(), 10)
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: one.upNS, Name: "object-00000"}}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"data":{"stamp":"`+stamp+`"}}`))
		must(tb, one.up.Patch(tb.Context(), obj, patch))
		for got := range arrived {
			if got.stamp == stamp {
				took = append(took, float64(got.at.Sub(now).Microseconds())/1000)
				break
			}
		}
	}
	go func() {
		for range arrived {
		}
	}()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	close(arrived)
	return took
}

func percentile(all []float64, p int) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}

func median(all []float64) float64 { return percentile(all, 50) }

func spread(all []float64) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(all), slices.MinFunc(all, cmp.Compare[float64]), slices.MaxFunc(all, cmp.Compare[float64]))
}

// writes counts the requests that change objects.
type writes struct {
	count *atomic.Int64
	next  http.RoundTripper
}

func (w *writes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		w.count.Add(1)
	}
	return w.next.RoundTrip(r)
}

// BenchmarkQuiet counts the writes of a pair in a minute without changes. CLUSTERFX_OBJECTS sets the number of its copies.
func BenchmarkQuiet(b *testing.B) {
	objects := benchSize("CLUSTERFX_OBJECTS", 1000)
	for range b.N {
		q := quick(b)
		q.fill(b, objects)
		copied := make(chan struct{}, objects)
		unwatch := q.watchCopies(b, func(*corev1.ConfigMap) { copied <- struct{}{} })
		stop := q.start(b, ofPairHeld)
		for range objects {
			<-copied
		}
		const settle, minute = 5 * time.Second, time.Minute
		<-time.After(settle)
		before := q.sent.Load()
		<-time.After(minute)
		b.ReportMetric(float64(q.sent.Load()-before), "writes/min")
		if before < int64(2*objects) {
			b.Errorf("%d objects with finalizers are copied with %d writes: the count is wrong", objects, before)
		}
		stop()
		unwatch()
	}
}
