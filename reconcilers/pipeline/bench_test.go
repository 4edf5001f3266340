// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

const (
	benchObjects = 1000
	benchRounds  = 50 // reconciles of each object per iteration
	benchSteps   = 5
	benchWorkers = 8
)

// BenchmarkReconcile measures passes without changes, over 1 000 objects with five resources each, next to a reconciler
// that only reads the same objects from the same cache: with direct calls one after the other, and through a controller
// with its queue.
func BenchmarkReconcile(b *testing.B) {
	s := newServer(b)
	cached := s.benchCache(b)
	bare := reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, client.IgnoreNotFound(cached.Get(ctx, req.NamespacedName, &Widget{}))
	})
	var plain, crud []pipeline.Resource[*Widget]
	for i := range benchSteps {
		plain = append(plain, nothing{fmt.Sprintf("nothing-%d", i)})
		r, err := pipeline.NewCRUDResource(unchanged{nothing{fmt.Sprintf("unchanged-%d", i)}}, pipeline.CreateDeleteUpdate)
		must(b, err)
		crud = append(crud, r)
	}
	requests := s.benchObjects(b, newReconciler(b, s, pipeline.Options[*Widget]{}, every(plain...)))
	for _, c := range []struct {
		name string
		reconcile.Reconciler
	}{
		{"bare", bare},
		{"resources", newReconciler(b, cached, pipeline.Options[*Widget]{}, every(plain...))},
		{"crud", newReconciler(b, cached, pipeline.Options[*Widget]{}, every(crud...))},
	} {
		b.Run("called/"+c.name, func(b *testing.B) {
			measure(b, func() {
				for _, request := range requests {
					if _, err := c.Reconcile(b.Context(), request); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run("queued/"+c.name, func(b *testing.B) { queued(b, c.Reconciler, requests) })
	}
}

func (s *server) benchCache(b *testing.B) client.Client {
	b.Helper()
	mgr := s.Manager()
	s.Run(mgr)
	must(b, testkit.Err(mgr.GetCache().GetInformer(b.Context(), &Widget{})))
	return mgr.GetClient()
}

// benchObjects creates the objects, and runs their first passes.
func (s *server) benchObjects(b *testing.B, r reconcile.Reconciler) []ctrl.Request {
	b.Helper()
	requests, all := make([]ctrl.Request, benchObjects), errgroup.Group{}
	all.SetLimit(benchWorkers)
	for i := range requests {
		requests[i].NamespacedName = s.Key(fmt.Sprintf("w-%d", i))
		all.Go(func() error {
			s.Make(requests[i].Name)
			for range 2 {
				if _, err := r.Reconcile(b.Context(), requests[i]); err != nil {
					return err
				}
			}
			return check(s.Read(requests[i].Name), metav1.ConditionTrue, pipeline.ReasonReady)
		})
	}
	must(b, all.Wait())
	return requests
}

// measure reports reconciles per second, and the cost of each reconcile.
func measure(b *testing.B, round func()) {
	b.Helper()
	round() // completes one-time allocations
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := processorTime(b)
	b.ResetTimer()
	for range b.N * benchRounds {
		round()
	}
	b.StopTimer()
	cpu = processorTime(b) - cpu
	runtime.ReadMemStats(&after)
	n := float64(b.N * benchRounds * benchObjects)
	b.ReportMetric(n/b.Elapsed().Seconds(), "reconciles/s")
	b.ReportMetric(float64(cpu.Nanoseconds())/n, "cpu-ns/reconcile")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "allocs/reconcile")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "B/reconcile")
	b.ReportMetric(0, "ns/op")
}

// processorTime is the CPU time of this process so far, which other processes disturb less than the clock.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// queued measures a reconciler below a controller.
func queued(b *testing.B, r reconcile.Reconciler, requests []ctrl.Request) {
	b.Helper()
	var open sync.WaitGroup
	yes := true
	c, err := controller.NewTypedUnmanaged(name, controller.Options{
		MaxConcurrentReconciles: benchWorkers, SkipNameValidation: &yes,
		Reconciler: reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
			defer open.Done()
			_, err := r.Reconcile(ctx, req)
			return ctrl.Result{}, err // Without RequeueAfter: only the rounds count.
		}),
	})
	must(b, err)
	queues := make(chan workqueue.TypedRateLimitingInterface[ctrl.Request], 1)
	must(b, c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queues <- q
		return nil
	})))
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	queue := <-queues
	measure(b, func() {
		open.Add(len(requests))
		for _, request := range requests {
			queue.Add(request)
		}
		open.Wait()
	})
	cancel()
	must(b, <-done)
}

// nothing is a resource without any work.
type nothing struct{ name string }

func (n nothing) Name() string                               { return n.name }
func (nothing) EnsureCreated(context.Context, *Widget) error { return nil }
func (nothing) EnsureDeleted(context.Context, *Widget) error { return nil }

// unchanged is a CRUD resource whose state is as desired.
type unchanged struct{ nothing }

func (unchanged) GetCurrentState(context.Context, *Widget) (int, error) { return 1, nil }
func (unchanged) GetDesiredState(context.Context, *Widget) (int, error) { return 1, nil }
func (unchanged) NewUpdatePatch(context.Context, *Widget, int, int) (*pipeline.Patch[int], error) {
	return nil, nil
}

func (unchanged) NewDeletePatch(context.Context, *Widget, int, int) (*pipeline.Patch[int], error) {
	return nil, nil
}
func (unchanged) ApplyCreateChange(context.Context, *Widget, int) error { return nil }
func (unchanged) ApplyDeleteChange(context.Context, *Widget, int) error { return nil }
func (unchanged) ApplyUpdateChange(context.Context, *Widget, int) error { return nil }
