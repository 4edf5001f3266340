// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry/state"
	"github.com/clusterfx/clusterfx/registry/watch"
)

const (
	crowd = 100_000                // requests of the busy remote
	work  = 200 * time.Microsecond // duration of each reconcile
)

type newQueue = func(string, workqueue.TypedRateLimiter[watch.Request]) workqueue.TypedRateLimitingInterface[watch.Request]

// queues are the fair queue, and the default queue of controllers.
func queues() map[string]newQueue {
	return map[string]newQueue{
		"fair": watch.NewQueue(nil),
		"plain": func(
			name string, l workqueue.TypedRateLimiter[watch.Request],
		) workqueue.TypedRateLimitingInterface[watch.Request] {
			return priorityqueue.New(name, func(o *priorityqueue.Opts[watch.Request]) { o.RateLimiter = l })
		},
	}
}

// BenchmarkFairness measures the effect of a hundred thousand requests of one remote on the next request of another
// remote, from the addition of this request until the only worker has done it: the latency without and with them, for
// the fair queue and for controller-runtime's own. It uses no API server.
func BenchmarkFairness(b *testing.B) {
	for _, name := range []string{"fair", "plain"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				alone := serve(b, queues()[name], 500, 0)
				samples := 500
				if name == "plain" {
					samples = 1 // The request comes last, after the crowd.
				}
				behind := serve(b, queues()[name], samples, crowd)
				report(b, alone, behind)
				b.ReportMetric(float64(ahead(queues()[name], samples)), "requests-ahead-max")
			}
		})
	}
}

// serve runs one worker, and returns the latencies of consecutive requests of a quiet remote.
func serve(b *testing.B, newQueue newQueue, samples, busy int) []time.Duration {
	b.Helper()
	q := crowded(newQueue, busy)
	done := make(chan struct{})
	var worker sync.WaitGroup
	worker.Go(func() {
		for {
			r, shutdown := q.Get()
			if shutdown {
				return
			}
			toil()
			q.Done(r)
			if r.Cluster == "quiet" {
				done <- struct{}{}
			}
		}
	})
	var took []time.Duration
	for i := range samples {
		began := time.Now()
		q.Add(in("quiet", types.NamespacedName{Name: fmt.Sprint(i)}))
		<-done
		took = append(took, time.Since(began))
	}
	q.ShutDown()
	worker.Wait()
	return took
}

func crowded(newQueue newQueue, busy int) workqueue.TypedRateLimitingInterface[watch.Request] {
	q := newQueue("test", workqueue.NewTypedItemExponentialFailureRateLimiter[watch.Request](time.Millisecond, time.Second))
	for i := range busy {
		q.Add(in("busy", types.NamespacedName{Name: fmt.Sprint(i)}))
	}
	return q
}

// ahead returns the maximum number of requests of the crowd that are handed out before a request of the quiet remote, including the
// request in progress. The number depends on the queue only; the latencies also depend on the load of the machine.
func ahead(newQueue newQueue, samples int) (most int) {
	q := crowded(newQueue, crowd)
	defer q.ShutDown()
	for i := range samples {
		inWork, _ := q.Get()
		q.Add(in("quiet", types.NamespacedName{Name: fmt.Sprint(i)}))
		passed := 0
		for inWork.Cluster != "quiet" {
			q.Done(inWork)
			passed++
			inWork, _ = q.Get()
		}
		q.Done(inWork)
		most = max(most, passed)
	}
	return most
}

// toil simulates a reconciler: it keeps its worker busy for a while.
func toil() {
	for began := time.Now(); time.Since(began) < work; {
	}
}

func report(b *testing.B, alone, behind []time.Duration) {
	b.Helper()
	b.ReportMetric(quantile(alone, 50), "ms-alone-p50")
	b.ReportMetric(quantile(alone, 99), "ms-alone-p99")
	b.ReportMetric(quantile(behind, 50), "ms-behind-p50")
	b.ReportMetric(quantile(behind, 99), "ms-behind-p99")
	b.ReportMetric(quantile(behind, 50)/quantile(alone, 50), "x-p50")
	b.ReportMetric(0, "ns/op") // has no meaning
}

func quantile(of []time.Duration, percent int) float64 {
	slices.Sort(of)
	return float64(of[(len(of)-1)*percent/100].Microseconds()) / 1000
}

// BenchmarkFairness_Remotes measures the same on two real remotes, from before a write to the quiet remote until its
// Reconcile has ended, in five rounds without and with the crowd in turns. The busy remote has an object that makes a hundred thousand requests.
func BenchmarkFairness_Remotes(b *testing.B) {
	for _, name := range []string{"fair", "plain"} {
		b.Run(name, func(b *testing.B) {
			f := newFairness(b, queues()[name])
			rounds, samples := 5, 1000
			if name == "plain" {
				rounds, samples = 1, 1
			}
			var alone, behind []time.Duration
			var ratios []float64
			for b.Loop() {
				for range rounds {
					without := f.writes(b, 1000)
					f.flood(b)
					with := f.writes(b, samples)
					if name == "fair" && f.isOver() {
						b.Error("the crowd ended before the last write: the figures are invalid")
					}
					f.settle()
					ratios = append(ratios, quantile(with, 99)/quantile(without, 99))
					alone, behind = append(alone, without...), append(behind, with...)
				}
			}
			report(b, alone, behind)
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x-p99-median")
			b.ReportMetric(ratios[0], "x-p99-min")
			b.ReportMetric(ratios[len(ratios)-1], "x-p99-max")
		})
	}
}

// fairness is a hub with a quiet remote, a busy remote and one worker.
type fairness struct {
	run         string // is in the names of its objects, to distinguish them from other runs
	quiet, busy *fleet.Cluster
	events      chan time.Time // the ends of reconciles of the quiet remote
	flooded     chan struct{}  // gets a value at the first request of a crowd
	settled     chan struct{}  // gets a value at the last request of a crowd
	left        atomic.Int64   // remaining requests of the crowd
}

func newFairness(b *testing.B, newQueue newQueue) *fairness {
	b.Helper()
	f := &fairness{
		run:   "-" + strings.ToLower(rand.Text()) + "-",
		quiet: fleettest.Cluster(b, "one"), busy: fleettest.Cluster(b, "two"),
		events: make(chan time.Time, 1), flooded: make(chan struct{}, 1), settled: make(chan struct{}, 1),
	}
	h := newHub(b, func(h *hub) error {
		return watch.ControllerManagedBy(h, h.remotes).Named("test").
			WithOptions(controller.TypedOptions[watch.Request]{NewQueue: newQueue}).
			WatchesRemote(&corev1.ConfigMap{}, watch.Options[client.Object]{Map: f.multiply}).
			Complete(f)
	})
	h.register(b, "quiet", f.quiet)
	h.register(b, "busy", f.busy)
	for _, name := range []state.ClusterName{"quiet", "busy"} {
		if err := h.remotes.WaitReady(b.Context(), name); err != nil {
			b.Fatal(err)
		}
	}
	f.writes(b, 1) // not measured: it shows that the quiet remote is watched
	return f
}

// multiply makes one request for an object of the quiet remote, and a crowd of requests for an object of the busy remote.
func (f *fairness) multiply(_ context.Context, name state.ClusterName, o client.Object) []watch.Request {
	switch {
	case o.GetGenerateName() != string(name)+f.run:
		return nil
	case name == "quiet":
		return []watch.Request{in(name, client.ObjectKeyFromObject(o))}
	}
	all := make([]watch.Request, crowd)
	for i := range all {
		all[i] = in(name, types.NamespacedName{Name: fmt.Sprint(i)})
	}
	return all
}

func (f *fairness) Reconcile(_ context.Context, request watch.Request) (ctrl.Result, error) {
	toil()
	if request.Cluster == "quiet" {
		f.events <- time.Now()
		return ctrl.Result{}, nil
	}
	switch f.left.Add(-1) {
	case crowd - 1:
		f.flooded <- struct{}{}
	case 0:
		f.settled <- struct{}{}
	}
	return ctrl.Result{}, nil
}

func (f *fairness) isOver() bool { return f.left.Load() <= 0 }

// flood creates the crowd and waits until the worker starts on it.
func (f *fairness) flood(b *testing.B) {
	b.Helper()
	f.left.Store(crowd)
	f.write(b, clientFor(b, f.busy), "busy")
	<-f.flooded
}

func (f *fairness) settle() { <-f.settled }

func (f *fairness) writes(b *testing.B, samples int) []time.Duration {
	b.Helper()
	direct := clientFor(b, f.quiet)
	var took []time.Duration
	for range samples {
		began := time.Now()
		f.write(b, direct, "quiet")
		took = append(took, (<-f.events).Sub(began))
	}
	return took
}

func (f *fairness) write(b *testing.B, direct client.Client, to string) {
	b.Helper()
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: to + f.run, Namespace: metav1.NamespaceDefault}}
	if err := direct.Create(b.Context(), one); err != nil {
		b.Fatalf("create: %v", err)
	}
}
