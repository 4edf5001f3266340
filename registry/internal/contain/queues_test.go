// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"
)

// controllers is a manager that accepts controllers, and does not start them.
type controllers struct{ ctrl.Manager }

func (controllers) Add(manager.Runnable) error { return nil }

// GetControllerOptions returns the options of the managers of apps that matter here.
func (controllers) GetControllerOptions() ctrlconfig.Controller {
	return ctrlconfig.Controller{SkipNameValidation: new(true), EnableWarmup: new(true)}
}

func managerWith(q *Queues) *Manager {
	app := &App{
		Queues:          q,
		Gate:            &Gate{},
		ControllerAdded: func(string, string) *cache.Controller { return &cache.Controller{} },
	}
	return &Manager{Manager: controllers{}, guard: NewContainer(app, "m", logr.Discard())}
}

func nothing[request comparable]() reconcile.TypedReconciler[request] {
	return reconcile.TypedFunc[request](func(context.Context, request) (reconcile.Result, error) { return reconcile.Result{}, nil })
}

func build[request comparable](m *Manager, o controller.TypedOptions[request]) (manager.Runnable, error) {
	if o.Reconciler == nil {
		o.Reconciler = nothing[request]()
	}
	return controller.NewTyped("c", m, o)
}

func queueTypeOf(t *testing.T, c manager.Runnable) string {
	t.Helper()
	field := fieldOf(c, "NewQueue")
	out := field.Call([]reflect.Value{reflect.ValueOf(""), fieldOf(c, "RateLimiter")})
	queue, ok := out[0].Interface().(interface{ ShutDown() })
	if !ok {
		t.Fatalf("queue: got %v", out[0])
	}
	queue.ShutDown()
	return fmt.Sprintf("%T", queue)
}

const (
	request    = "[sigs.k8s.io/controller-runtime/pkg/reconcile.Request]"
	ours       = "*contain.Queue"
	standard   = "*priorityqueue.priorityqueue"
	withoutAny = "*workqueue.rateLimitingType"
)

// A controller of controller-runtime has the fields that this package reads and sets.
func TestControllerFields(t *testing.T) {
	t.Parallel()
	m := managerWith(nil)
	for name, r := range map[string]reconcile.Reconciler{"plain": nothing[ctrl.Request](), "supervised": Supervise(m, nothing[ctrl.Request]())} {
		c, err := controller.NewUnmanaged("c", controller.Options{SkipNameValidation: new(true), Reconciler: r})
		must(t, err)
		testkit.Equal(t, nameOf(c), "c", "name")
		testkit.Equal(t, supervisorOf(c) != nil, name == "supervised", name)
		if f := fieldOf(c, "NewQueue"); !f.CanSet() || functionName(f) == "" || functionName(f) != NewQueues().standard {
			t.Errorf("got %v, want the function that makes the queue", f)
		}
	}
}

// The controllers of modules have a Queue, unless they have chosen another queue.
func TestQueues(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	own := func(name string, l workqueue.TypedRateLimiter[ctrl.Request]) workqueue.TypedRateLimitingInterface[ctrl.Request] {
		return priorityqueue.New(name, func(o *priorityqueue.Opts[ctrl.Request]) { o.RateLimiter = l })
	}
	for name, one := range map[string]struct {
		build func(*Manager) (manager.Runnable, error)
		want  string
	}{
		"controller.New": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.Options{})
		}, ours + request},
		"UsePriorityQueue": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.Options{UsePriorityQueue: &yes})
		}, ours + request},
		"with another rate limiter": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.Options{RateLimiter: workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]()})
		}, ours + request},
		"without UsePriorityQueue": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.Options{UsePriorityQueue: &no})
		}, withoutAny + request},
		"with NewQueue": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.Options{NewQueue: own})
		}, standard + request},
		"supervised": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.Options{Reconciler: Supervise(m, nothing[ctrl.Request]())})
		}, ours + request},
		"supervised, other requests": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.TypedOptions[string]{Reconciler: Supervise(m, nothing[string]())})
		}, ours + "[string]"},
		"supervised, without UsePriorityQueue": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.TypedOptions[string]{
				Reconciler: Supervise(m, nothing[string]()), UsePriorityQueue: &no,
			})
		}, withoutAny + "[string]"},
		"unsupervised, other requests": {func(m *Manager) (manager.Runnable, error) {
			return build(m, controller.TypedOptions[string]{})
		}, standard + "[string]"},
		"of a builder": {func(m *Manager) (manager.Runnable, error) {
			return builder.ControllerManagedBy(m).Named("c").WatchesRawSource(source.Func(func(
				context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request],
			) error {
				return nil
			})).Build(nothing[ctrl.Request]())
		}, ours + request},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := one.build(managerWith(NewQueues()))
			must(t, err)
			testkit.Equal(t, queueTypeOf(t, c), one.want, "queue")
		})
	}
}

// Without Queues a controller has the queue of controller-runtime.
func TestQueues_None(t *testing.T) {
	t.Parallel()
	c, err := build(managerWith(nil), controller.Options{})
	must(t, err)
	testkit.Equal(t, queueTypeOf(t, c), standard+request, "queue")
}
