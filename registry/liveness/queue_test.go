// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A controller whose workers all wait forever is stuck, until one of them returns. A controller with one free worker is not stuck.
func TestQueue_Deadlock(t *testing.T) {
	withBoth(t, func(t *testing.T, plain bool) {
		m, release := running(t, Options{}), make(chan struct{})
		queue := begin(t, m, plain, func(context.Context, ctrl.Request) (ctrl.Result, error) {
			<-release
			return ctrl.Result{}, nil
		})
		queue.Add(request("a"))
		<-time.After(time.Minute)
		expectWell(t, m, "one of two workers is deadlocked")
		queue.Add(request("b"))
		<-time.After(time.Minute)
		testkit.ErrorHas(t, m.Err(), "controller "+t.Name(), "both workers are deadlocked")
		close(release)
		synctest.Wait()
		expectWell(t, m, "both workers have returned")
	})
}

// A controller whose workers return is not stuck, regardless of the length of its queue and the time of its work: not
// even if all calls last until their timeout and fail.
func TestQueue_Busy(t *testing.T) {
	withBoth(t, func(t *testing.T, plain bool) {
		m := running(t, Options{})
		queue := begin(t, m, plain, func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
			<-ctx.Done()
			return ctrl.Result{}, errors.New("it takes too long")
		})
		for i := range 1000 {
			queue.Add(request(strconv.Itoa(i)))
		}
		for range 600 {
			<-time.After(time.Second)
			if missed := m.Err(); missed != nil {
				t.Fatal(missed)
			}
		}
	})
}

// No reconciler receives a heartbeat, and an idle controller responds to all of them.
func TestQueue_Idle(t *testing.T) {
	withBoth(t, func(t *testing.T, plain bool) {
		m := running(t, Options{})
		var mu sync.Mutex
		var seen []ctrl.Request
		queue := begin(t, m, plain, func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r)
			return ctrl.Result{}, nil
		})
		queue.Add(request("a"))
		for range 300 {
			<-time.After(time.Second)
			if missed := m.Missed(); missed != nil {
				t.Fatal(missed)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[0] != request("a") {
			t.Errorf("reconciler received %v, want one request", seen)
		}
	})
}

// A controller is watched while it has workers: not while it waits for its sources, and not after its end.
func TestQueue_WatchedWhileItWorks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, synced := running(t, Options{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newController(t, m, false, func(context.Context, ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, nil
		})
		must(t, c.Watch(source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			<-synced
			return nil
		})))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Start(ctx)
		}()
		expect := func(when string, hearts int) {
			t.Helper()
			<-time.After(time.Minute)
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.hearts) != hearts {
				t.Errorf("%s: got %d watched subjects", when, len(m.hearts))
			}
		}
		expect("before its sources have synced", 0)
		close(synced)
		expect("while it works", 1)
		cancel()
		<-ended
		expect("after its end", 0)
	})
}

// Attach refuses controllers whose requests have another type, and runnables that are not controllers.
func TestAttach_Refuses(t *testing.T) {
	t.Parallel()
	m := New(Options{})
	c, err := controller.NewTypedUnmanaged("typed", controller.TypedOptions[string]{
		SkipNameValidation: new(true),
		Reconciler:         reconcile.TypedFunc[string](func(context.Context, string) (ctrl.Result, error) { return ctrl.Result{}, nil }),
	})
	must(t, err)
	if Attach(m, Subject{}, c, Request()) {
		t.Error("Attach accepts a controller of strings for objects")
	}
	if !Attach(m, Subject{}, c, "heartbeat") {
		t.Error("Attach refuses a controller of strings for strings")
	}
	if Attach(m, Subject{}, manager.RunnableFunc(func(context.Context) error { return nil }), Request()) {
		t.Error("Attach accepts a function")
	}
}

// withBoth runs a test with each kind of queue.
func withBoth(t *testing.T, f func(t *testing.T, plain bool)) {
	t.Helper()
	t.Parallel()
	for kind, plain := range map[string]bool{"priority queue": false, "plain queue": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, plain) })
		})
	}
}

// begin runs a controller with two workers until the test ends, and returns its queue.
func begin(t *testing.T, m *Monitor, plain bool, f reconcile.Func) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	t.Helper()
	c, queues := newController(t, m, plain, f), make(chan workqueue.TypedRateLimitingInterface[ctrl.Request], 1)
	must(t, c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queues <- queue
		return nil
	})))
	testkit.Background(t, c.Start)
	return <-queues
}

// newController returns a controller as the hub creates it, or as a module may create it: without a priority queue, and attached later.
func newController(t *testing.T, m *Monitor, plain bool, f reconcile.Func) controller.Controller {
	t.Helper()
	yes, prioritized := true, !plain
	o := controller.Options{
		Reconciler: f, MaxConcurrentReconciles: 2, SkipNameValidation: &yes, UsePriorityQueue: &prioritized,
		ReconciliationTimeout: ReconcileTimeout,
	}
	s := Subject{Controller: t.Name()}
	if !plain {
		o.NewQueue = Queue(m, s, Request())
	}
	c, err := controller.NewUnmanaged(t.Name(), o)
	must(t, err)
	if plain && !Attach(m, s, c, Request()) {
		t.Fatal("Attach fails")
	}
	return c
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// contextOf returns a context that outlives the test's own context, which ends before cleanups.
func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(context.WithoutCancel(t.Context()))
}

var must = testkit.Must
