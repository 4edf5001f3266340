// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

func newControllerRunnable(ctx context.Context, t *testing.T, s source.Func) *controllerRunnable {
	t.Helper()
	c, err := controller.NewUnmanaged("pods", controller.Options{
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}),
		EnableWarmup: new(true), SkipNameValidation: new(true), Logger: logr.Discard(),
	})
	must(t, err)
	must(t, c.Watch(s))
	app := &App{
		Context: ctx, Gate: NewGate(ctx),
		Failed:           func(_ string, err error) error { return err },
		ControllerSynced: func(string, *cache.Controller) {},
	}
	app.Gate.Open()
	return &controllerRunnable{
		runnable: runnable{Runnable: c, guard: NewContainer(app, "pods", logr.Discard())},
		warmer:   c.(warmup), known: &cache.Controller{},
	}
}

// A controller starts its sources in Warmup or in Start, whichever the manager calls first. In both cases the app knows
// the kinds that the controller waits for.
func TestControllerRunnable_KindsAreKnown(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func(*controllerRunnable) manager.RunnableFunc{
		"Warmup first": func(c *controllerRunnable) manager.RunnableFunc { return c.Warmup },
		"Start first":  func(c *controllerRunnable) manager.RunnableFunc { return c.Start },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan struct{})
			one := newControllerRunnable(ctx, t, func(ctx context.Context, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
				cache.Awaits(ctx, "Pod", "*v1.Pod")
				close(asked)
				return nil
			})
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() {
				if err := first(one)(ctx); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			<-asked
			if missing := one.known.Missing(); len(missing) != 1 || missing[0].Kind != "Pod" {
				t.Errorf("missing kinds: got %+v, want Pod", missing)
			}
		})
	}
}

// A runnable that ends its goroutine fails its module.
func TestRunnable_EndsItsGoroutine(t *testing.T) {
	t.Parallel()
	failed := map[string]error{}
	app := &App{Context: t.Context(), Gate: NewGate(t.Context()), Fail: func(module string, err error) { failed[module] = err }}
	app.Gate.Open()
	one := &runnable{guard: NewContainer(app, "broken", logr.Discard()), Runnable: manager.RunnableFunc(func(context.Context) error {
		runtime.Goexit()
		return nil
	})}
	var running sync.WaitGroup
	running.Go(func() { _ = one.Start(t.Context()) })
	running.Wait()
	testkit.ErrorIs(t, failed["broken"], ErrGoexit, "the module failed with")
}
