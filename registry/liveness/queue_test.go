// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A controller whose 50 workers all hang is stuck while work waits, until one of them returns. With 49 of them, or
// without waiting work, it is not.
func TestQueue_Deadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, release := running(t, Options{}), make(chan struct{})
		queue := begin(t, m, 50, func(_ context.Context, r ctrl.Request) (ctrl.Result, error) {
			if r.Name != "returns" {
				<-release
			}
			return ctrl.Result{}, nil
		})
		for i := range 49 {
			queue.Add(request(strconv.Itoa(i)))
		}
		for range 60 {
			queue.Add(request("returns"))
			<-time.After(time.Second)
		}
		expectWell(t, m, "one of 50 workers is free")
		queue.Add(request("49"))
		<-time.After(time.Minute)
		expectWell(t, m, "no work waits")
		queue.Add(request("returns"))
		<-time.After(2 * time.Second)
		testkit.ErrorHas(t, m.Err(), "controller "+t.Name(), "50 of 50 workers hang")
		close(release)
		synctest.Wait()
		expectWell(t, m, "the workers have returned")
	})
}

// A controller whose workers return is not stuck, regardless of the length of its queue and the time of its work: not
// even if all calls last until their timeout and fail.
func TestQueue_Busy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := running(t, Options{})
		queue := begin(t, m, 2, func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
			<-ctx.Done()
			return ctrl.Result{}, errors.New("it takes too long")
		})
		for i := range 1000 {
			queue.Add(request(strconv.Itoa(i)))
		}
		for range 600 {
			<-time.After(time.Second)
			testkit.Must(t, m.Err())
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
		c := newController(t, m, 2, func(context.Context, ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, nil
		})
		testkit.Must(t, c.Watch(source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
			<-synced
			return nil
		})))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Start(ctx)
		}()
		expect := func(when string, watched int) {
			t.Helper()
			<-time.After(time.Minute)
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.watched) != watched {
				t.Errorf("%s: got %d watched controllers", when, len(m.watched))
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

// begin runs a controller until the test ends, and returns its queue.
func begin(t *testing.T, m *Monitor, workers int, f reconcile.Func) workqueue.TypedRateLimitingInterface[ctrl.Request] {
	t.Helper()
	c, queues := newController(t, m, workers, f), make(chan workqueue.TypedRateLimitingInterface[ctrl.Request], 1)
	testkit.Must(t, c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queues <- queue
		return nil
	})))
	testkit.Background(t, c.Start)
	return <-queues
}

func newController(t *testing.T, m *Monitor, workers int, f reconcile.Func) controller.Controller {
	t.Helper()
	o := controller.Options{
		Reconciler: f, MaxConcurrentReconciles: workers, SkipNameValidation: new(true), ReconciliationTimeout: ReconcileTimeout,
	}
	o.NewQueue = Queue[ctrl.Request](m, Subject{Controller: t.Name()})
	c, err := controller.NewUnmanaged(t.Name(), o)
	testkit.Must(t, err)
	return c
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: name}}
}
